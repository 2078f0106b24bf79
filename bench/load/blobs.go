package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// The least and the most bytes of a blob.
const (
	leastBlob = 2_000_000
	mostBlob  = 5_000_000
)

// noise is where all blobs are cut from. Nothing can compress it. It is in the memory of every
// side.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 8<<20)
	random := rand.New(rand.NewPCG(4, 4))
	for at := 0; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], random.Uint64())
	}
	return b
})

// blobOf returns the blob of a number. The caller must not change it.
func blobOf(i int) []byte {
	p, all := picker(i), noise()
	n := leastBlob + p.below(mostBlob-leastBlob)
	at := p.below(len(all) - n)
	return all[at : at+n]
}

func blobKey(i int) []byte { return fmt.Appendf(nil, "blob-%08d", i) }

// putBlobs writes each blob in a transaction of its own, and syncs once.
func putBlobs(s *spec, f figures) error {
	noise()
	st, err := engines[s.Side].Open(s.Dir, false)
	if err != nil {
		return err
	}
	start := time.Now()
	err = fillBlobs(st, s.Dir, s.Times, blobOf)
	f["time"] = time.Since(start).Seconds()
	return errors.Join(err, f.memory(), st.Close())
}

func fillBlobs(st rivals.Store, dir string, n int, of func(i int) []byte) error {
	for i := range n {
		if err := st.Put(blobKey(i), of(i)); err != nil {
			return err
		}
	}
	return syncStore(st, dir)
}

// getBlobs opens the store and reads all blobs, each into memory of its own.
func getBlobs(s *spec, f figures) error {
	noise()
	start := time.Now()
	st, err := engines[s.Side].Open(s.Dir, false)
	if err != nil {
		return err
	}
	for i := range s.Times {
		got, failed := st.Get(blobKey(i))
		if failed == nil && !bytes.Equal(got, blobOf(i)) {
			failed = errors.New("the bytes are not what was written")
		}
		if failed != nil {
			err = fmt.Errorf("blob %d: %w", i, failed)
			break
		}
	}
	f["time"] = time.Since(start).Seconds()
	return errors.Join(err, f.memory(), st.Close())
}
