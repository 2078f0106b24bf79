package vfs

import (
	"errors"
	"io/fs"
	"testing"
)

func TestMake(t *testing.T) {
	m := NewCrashMem()
	create(t, m, "f", "what a crash has left").Close()
	check(t, m.SyncDir("/"))
	f, err := Make(m, "f", func(f File) error {
		put(t, f, 0, "text")
		return nil
	})
	check(t, err)
	wantText(t, f, "text")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f=text")
}

// Whatever step fails, the error says so, and no file is left.
func TestMakeFails(t *testing.T) {
	failed := errors.New("failed")
	for _, kind := range []Kind{OpRemove, OpCreate, OpWrite, OpSync} {
		m := NewMem()
		create(t, m, "f", "what a crash has left").Close()
		fsys := Inject(m, &Fault{Kinds: kind, N: 1, Err: failed})
		_, err := Make(fsys, "f", func(f File) error {
			_, err := f.WriteAt([]byte("text"), 0)
			return err
		})
		wantErr(t, err, failed)
		if _, err := m.Open("f", ReadOnly); kind != OpRemove && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v fails, and a file is left: %v", kind, err)
		}
	}
}
