package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// Entries that move into the table of a map, which is declared at that moment, are there throughout.

func TestScanWhileAMapIsDeclared(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	if err := s.Order(s.RawTable(), keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "m:1", "z"} {
		mustSet(t, s, key, "1")
	}
	s.RawTable().order.Load().lose(errors.New("planted")) // so that it is made when the tables have been listed
	declared := false
	keysSorted = func() {
		if !declared {
			declared = true
			if _, err := s.Map("m"); err != nil {
				t.Error(err)
			}
		}
	}
	defer func() { keysSorted = func() {} }()
	var got []string
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(key))
	}
	if want := []string{"a", "m:1", "z"}; !slices.Equal(got, want) || !declared {
		t.Errorf("Scan: %q, want %q; a map was declared: %v", got, want, declared)
	}
}

func TestCountWhileAMapIsDeclared(t *testing.T) {
	clock := &lateClock{Clock: logtest.NewClock()}
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock = clock })
	defer mustClose(t, s)
	mustSet(t, s, "a", "1")
	if _, err := s.Write(nil, &Write{Key: []byte("m:1"), Value: []byte("1"), Expiry: uint64(clock.Now().UnixMilli()) + 1000}); err != nil {
		t.Fatal(err)
	}
	declared := false
	clock.f = func() { // when the first table is counted
		declared = true
		if _, err := s.Map("m"); err != nil {
			t.Error(err)
		}
	}
	if n := s.Stats().Keys; n != 2 || !declared {
		t.Errorf("%d keys, want 2; a map was declared: %v", n, declared)
	}
}
