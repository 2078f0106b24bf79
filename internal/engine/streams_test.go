package engine_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/stream"
	"github.com/copaldb/copal/internal/vfs"
)

// The engine's part in values that are written and read piece by piece.

// writeStream writes a value as a stream, in parts of 100 bytes.
func writeStream(t testing.TB, s *engine.Store, key, value string) {
	t.Helper()
	w, err := stream.Create(context.Background(), s, []byte(key), 100)
	if err == nil {
		_, err = io.WriteString(w, value)
	}
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReaderStandsStill: a reader reads the former value, though it has been replaced and deleted, compaction
// has been at work and the view is closed; files kept for that go with the reader.
func TestReaderStandsStill(t *testing.T) { logtest.BothWays(t, readerStandsStill) }

func readerStandsStill(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes, o.MaxMemory = 3000, 1<<20 })
	value := logtest.Numbered(20_000, "old")
	writeStream(t, s, "key", value)
	v, err := s.OpenView()
	if err != nil {
		t.Fatal(err)
	}
	now, err := stream.Open(s, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	writeStream(t, s, "key", logtest.Numbered(10_000, "new"))
	then, err := stream.Open(v, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	if _, err := stream.Open(v, []byte("key")); !errors.Is(err, engine.ErrViewClosed) {
		t.Errorf("a value of a view that is closed: %v", err)
	}
	if _, err := s.Delete(nil, []byte("key"), engine.Process); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Open(s, []byte("key")); err != engine.ErrNotFound {
		t.Errorf("a value that was deleted: %v", err)
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if held := s.Stats().HeldBytes; held < 20_000 {
		t.Errorf("%d bytes are held for readers of 20000", held)
	}
	if disk := engine.DiskBytes(s); disk > 10_000 {
		t.Errorf("writes are slowed down for %d bytes", disk)
	}
	for _, r := range []*stream.Reader{now, then} {
		if got, err := io.ReadAll(r); err != nil || string(got) != value {
			t.Fatalf("%d bytes are read, want %d: %v", len(got), len(value), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held for nobody", held)
	}
	storetest.Close(t, s)
}

// TestCrashModelStreams: crashes at every boundary of every operation of streams, with others in between them.
func TestCrashModelStreams(t *testing.T) { logtest.BothWays(t, crashModelStreams) }

func crashModelStreams(t *testing.T) {
	want := 300
	if storetest.Long() {
		want = 500_000
	}
	engine.CrashRoom(t, want, func(s *engine.Store, st engine.CrashStep) error {
		w, err := stream.Create(context.Background(), s, []byte(st.Key), 60)
		if err != nil {
			return err
		}
		defer w.Close()
		lost, err := stream.Create(context.Background(), s, []byte(st.Key), 60)
		if err != nil {
			return err
		}
		defer lost.Close()
		for rest := st.Value; rest != ""; {
			n := min(1+st.Rng.IntN(200), len(rest))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				return err
			}
			if _, err := io.WriteString(lost, "lost"); err != nil {
				return err
			}
			rest = rest[n:]
			if err := st.Between(rest); err != nil {
				return err
			}
		}
		st.Begin()
		if st.Durability == engine.Power {
			return w.CommitFSync()
		}
		return w.Commit()
	})
}
