package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
)

const copyHelp = `Copy what the store SRC has into the store DST, while SRC is written to. Each is a
directory, or a server: redis://host:port. DST is made if it is a directory that is not
there; else it must be empty.

First all entries are copied, then what has changed meanwhile, until DST has caught up.
Then all entries of both are compared by their checksums, and copy ends and says the
sequence number of SRC up to which DST has all. Run again, it goes on there, and copies
only what has changed since.

With --cutover it does not end, but goes on as SRC changes. When you have stopped what
writes to SRC, press Enter: copy makes the last changes, compares all, and says that both
are equal. Then let your programs open DST. If standard input ends before a line, that is
an error, and the same command goes on.

Values arrive with their codecs, schemas and content types, deadlines to the
millisecond, and hashes, lists, sets, sorted sets and streams with all elements and
groups. A Redis keeps no codecs, schemas and content types: copy says how many entries
lost a content type. To take streams it has to be Redis 7.0 or later. A server takes values
of up to 512 MiB, and has a minute for each command: redis://host?timeout=5m gives it more.

After an interruption or a crash the same command goes on about where it ended: the entry
copal.copy:position of DST says where, until --cutover is through. Only copy may write to
DST meanwhile. When copy has found something else there, the next run replaces what
differs, and with --replace deletes what DST alone has. A run that reads all of SRC again,
as after it was compacted, deletes that, too.

A plain Redis tells no moments: as SRC it is read again and again or, if it is set to say
which keys change (notify-keyspace-events EA), once, and then these keys. What is written
or flushed meanwhile may be copied or not. All is read and compared at the --cutover
alone; before, copy says "copied, not compared".

With --replace DST need not be empty: what it has, and SRC has not, is deleted.

With --json the output is {"from":…,"to":…,"seq":…,"entries":…,"written":…,"deleted":…,
"resumed":…,"walks":…,"rounds":…,"sum":…,"equal":…,"contentTypesLeftOut":…}: sum is of all
entries, so that it can be compared with the one of another copy, and equal says that SRC
was not written to since. sum, entries and contentTypesLeftOut, the number of
content types that were not copied, are null where nothing was compared.`

const copyExample = `  copal copy app.db /mnt/new/app.db
  copal copy app.db /mnt/new/app.db --cutover`

// copyFlags say how a store is copied.
type copyFlags struct {
	cutover, replace, json bool
}

func newCopy(a *app) *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:               "copy SRC DST",
		Short:             "Copy a store that is written to into another one",
		Long:              copyHelp,
		Example:           copyExample,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeDirs,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			if a.host != nil {
				return usageError{"copy stands alone: the shell has the store"}
			}
			defer a.catchSignals()()
			return a.copy(args[0], args[1], &f, out)
		}),
	}
	cmd.Flags().BoolVar(&f.cutover, "cutover", false, "go on until you have stopped what writes to SRC and press Enter")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "delete what DST has and SRC has not")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was done as one JSON object")
	return cmd
}

func (a *app) copy(src, dst string, f *copyFlags, out *bufio.Writer) error {
	name, err := nameOf(src)
	if err != nil {
		return err
	}
	if other, err := nameOf(dst); err != nil || other == name {
		return errors.Join(err, usageError{"SRC and DST are one store"})
	}
	a.own = seglog.Unfinished{Work: seglog.CopyWork, Source: name}
	return a.view(patient(src), func(from *copal.DB) error {
		return a.updateOrCreate(patient(dst), func(to *copal.DB) error {
			dir := dst
			src, dst := redacted(src), redacted(dst)
			c := copying.New(from, to)
			c.Name, c.Replace = name, f.replace
			err := a.noteNew(dir, to, a.own)
			if err == nil {
				err = a.runCopy(c, src, f)
			}
			if err == nil {
				err = a.endNew(dir, to, a.own)
			}
			switch {
			case a.ctx.Err() != nil:
				return fmt.Errorf("%w; %s has what was copied, and the same command goes on there", errInterrupted, dst)
			case errors.Is(err, copying.ErrNotEmpty):
				return fmt.Errorf("%s has entries, and none of them is of an unfinished copy of %s; with --replace what is not in %s is deleted", dst, src, src)
			case errors.Is(err, copying.ErrWritten):
				return fmt.Errorf("%s is still written to, so %s is not equal to it; the same command goes on there", src, dst)
			case errors.As(err, new(*copying.DifferentError)):
				return fmt.Errorf("%w\nsomebody else has written to %s, or a disk is damaged; the same command replaces what differs, and with --replace deletes what %s alone has", err, dst, dst)
			case errors.Is(err, copying.ErrOwn):
				return fmt.Errorf("%w; with --replace it is deleted", err)
			case err != nil:
				return err
			}
			if n := c.Report().Contents; n > 0 {
				a.note(fmt.Sprintf("the content types of %s were not copied: %s keeps none", countEntries(n), dst))
			}
			return f.tell(c.Report(), src, dst, out)
		})
	})
}

// nameOf is by what a copy that is resumed knows a store.
func nameOf(store string) (string, error) {
	switch {
	case store == "":
		return "", errNoDir
	case isServer(store): // the name stands in the destination, where others read it
		address, query, _ := strings.Cut(redacted(store), "?")
		said, _ := url.ParseQuery(query)
		said.Del("timeout") // the same store is reached with another one
		said.Del("cache")
		if len(said) > 0 {
			address += "?" + said.Encode()
		}
		return address, nil
	}
	return files.Path(store)
}

// patient is a server with time for long values, unless the user has said how much. A directory stays as it is.
func patient(store string) string {
	_, query, found := strings.Cut(store, "?")
	switch said, _ := url.ParseQuery(query); { // whoever opens the store finds out what is wrong with it
	case !isServer(store) || said.Has("timeout"):
		return store
	case found:
		return store + "&timeout=1m"
	}
	return store + "?timeout=1m"
}

func (a *app) runCopy(c *copying.Copy, src string, f *copyFlags) error {
	bar := a.newCount("copying", "entries")
	defer bar.clear()
	c.Show, c.Tell = bar.show, bar.describe
	if err := c.CatchUp(a.ctx); err != nil || !f.cutover {
		return err
	}
	bar.clear()
	how := "copied"
	if r := c.Report(); r.Compared {
		how = fmt.Sprintf("caught up at number %d", r.Seq)
	}
	a.note(fmt.Sprintf("%s, and going on. Stop what writes to %s, then press Enter", how, src))
	confirmed, confirm := context.WithCancel(context.Background())
	in := a.input()
	asked := make(chan error, 1)
	go func() {
		defer confirm()
		_, err := bufio.NewReader(in).ReadString('\n')
		asked <- err
	}()
	err := c.Follow(a.ctx, confirmed)
	if err != nil {
		return err
	}
	if err := <-asked; err == io.EOF {
		return errors.New("standard input has ended before a line said that nobody writes any more; what was copied is there, and the same command goes on")
	} else if err != nil {
		return fmt.Errorf("standard input cannot be read: %w", err)
	}
	return c.Finish(a.ctx)
}

// tell prints what was done.
func (f *copyFlags) tell(r copying.Report, src, dst string, out *bufio.Writer) error {
	if f.json {
		var entries, contents *int64 // null where nothing was compared
		var sum *string
		if r.Compared {
			text := r.Sum.String()
			entries, sum, contents = &r.Entries, &text, &r.Contents
		}
		return writeJSON(out, struct {
			From     string  `json:"from"`
			To       string  `json:"to"`
			Seq      uint64  `json:"seq"`
			Entries  *int64  `json:"entries"`
			Written  int64   `json:"written"`
			Deleted  int64   `json:"deleted"`
			Resumed  bool    `json:"resumed"`
			Walks    int64   `json:"walks"`
			Rounds   int64   `json:"rounds"`
			Sum      *string `json:"sum"`
			Equal    bool    `json:"equal"`
			Contents *int64  `json:"contentTypesLeftOut"`
		}{src, dst, r.Seq, entries, r.Written, r.Deleted, r.Resumed, r.Walks, r.Rounds, sum, f.cutover, contents})
	}
	if !r.Compared {
		_, err := fmt.Fprintf(out, "%s: copied, not compared: %d set and %d deleted by this run\n", dst, r.Written, r.Deleted)
		return err
	}
	how := fmt.Sprintf("has what %s had at number %d", src, r.Seq)
	if f.cutover {
		how = "is equal to " + src
	}
	_, err := fmt.Fprintf(out, "%s %s: %s, %d set and %d deleted by this run; checksum %.16s\n", dst, how, countEntries(r.Entries), r.Written, r.Deleted, r.Sum)
	return err
}
