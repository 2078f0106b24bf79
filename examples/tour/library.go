package main

import (
	"time"

	"github.com/copaldb/copal"
)

// File is a source file. It is a plain struct, without tags.
type File struct {
	Path    string // below GOROOT/src
	Package string // import path
	Bytes   int
	Lines   int
	Imports []string
	Changed time.Time
	Text    string
}

// Package sums up the files of one import path.
type Package struct {
	Files   []string
	Imports []string // sorted
	Lines   int
	Newest  time.Time
}

// Summary is a single value, kept without a map.
type Summary struct {
	Source   string
	Files    int
	Bytes    int64
	FilledAt time.Time
}

// Draft is a value of the process that will be killed: a piece of a file.
type Draft struct {
	File   string
	Step   int // of its writer's plan
	Length int
	Text   string
}

// library is the store with its maps. One store holds any number of them.
type library struct {
	db       *copal.DB
	files    *copal.Map[string, File]    // by path
	packages *copal.Map[string, Package] // by import path
	lengths  *copal.Map[int, int]        // how many files have so many hundred lines
	drafts   *copal.Map[string, Draft]
}

// summaryName is where the Summary is kept.
const summaryName = "summary"

func openLibrary(dir string) (*library, error) {
	db, err := copal.Open(dir) // made when it is missing
	if err != nil {
		return nil, err
	}
	l := &library{db: db}
	if err := l.openMaps(); err != nil {
		db.Close()
		return nil, err
	}
	return l, nil
}

func (l *library) openMaps() (err error) {
	if l.files, err = copal.OpenMap[string, File](l.db, "file"); err != nil {
		return err
	}
	if l.packages, err = copal.OpenMap[string, Package](l.db, "package"); err != nil {
		return err
	}
	if l.lengths, err = copal.OpenMap[int, int](l.db, "length"); err != nil {
		return err
	}
	l.drafts, err = copal.OpenMap[string, Draft](l.db, "draft")
	return err
}
