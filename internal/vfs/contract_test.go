package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// The promises of vfs.go, tested on the disk and in memory.

func eachFS(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	for name, fsys := range map[string]FS{"mem": NewMem(), "recording": NewCrashMem(), "faulty": Inject(NewMem())} {
		t.Run(name, func(t *testing.T) {
			check(t, fsys.MkdirAll("/data"))
			test(t, fsys, "/data")
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
}

func create(t testing.TB, fsys FS, name, text string) File {
	t.Helper()
	f, err := fsys.Open(name, Create)
	check(t, err)
	put(t, f, 0, text)
	return f
}

func put(t testing.TB, f File, off int64, text string) {
	t.Helper()
	n, err := f.WriteAt([]byte(text), off)
	check(t, err)
	if n != len(text) {
		t.Fatalf("wrote %d of %d bytes", n, len(text))
	}
}

func wantText(t testing.TB, f File, want string) {
	t.Helper()
	size, err := f.Size()
	check(t, err)
	got := make([]byte, size)
	if n, err := f.ReadAt(got, 0); n != len(got) || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d bytes: %v", n, len(got), err)
	}
	if string(got) != want {
		t.Fatalf("file holds %q, want %q", got, want)
	}
}

func wantNames(t *testing.T, fsys FS, dir string, want ...string) {
	t.Helper()
	got, err := fsys.List(dir)
	check(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("%s lists %q, want %q", dir, got, want)
	}
}

func TestNames(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		_, err := fsys.Open(a, ReadOnly)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Open(a, ReadWrite)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Open(filepath.Join(dir, "no", "a"), Create)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.List(filepath.Join(dir, "no"))
		wantErr(t, err, fs.ErrNotExist)
		wantErr(t, fsys.Remove(a), fs.ErrNotExist)
		wantErr(t, fsys.Rename(a, b), fs.ErrNotExist)
		wantErr(t, fsys.SyncDir(filepath.Join(dir, "no")), fs.ErrNotExist)

		check(t, create(t, fsys, b, "bee").Close())
		check(t, create(t, fsys, a, "eh").Close())
		_, err = fsys.Open(a, Create)
		wantErr(t, err, fs.ErrExist)
		wantNames(t, fsys, dir, "a", "b")
		wantErr(t, fsys.Rename(a, filepath.Join(dir, "no", "a")), fs.ErrNotExist)

		check(t, fsys.Rename(a, a))
		check(t, fsys.Rename(a, b))
		check(t, fsys.SyncDir(dir))
		wantNames(t, fsys, dir, "b")
		f, err := fsys.Open(b, ReadOnly)
		check(t, err)
		wantText(t, f, "eh")
		check(t, f.Close())
		check(t, fsys.Remove(b))
		wantNames(t, fsys, dir)
	})
}

// TestHasName: the answer is no after a removal, a renaming, of a directory too, and where another file has come.
func TestHasName(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		check(t, fsys.MkdirAll(filepath.Join(dir, "sub")))
		a, b := filepath.Join(dir, "sub", "a"), filepath.Join(dir, "sub", "b")
		f := create(t, fsys, a, "text")
		defer f.Close()
		want := func(name string, want bool) {
			t.Helper()
			for range 2 {
				if has, err := f.HasName(name); has != want || err != nil {
					t.Errorf("HasName(%s) = %v, %v, want %v", name, has, err, want)
				}
			}
		}
		want(a, true)
		want(b, false)
		want(filepath.Join(dir, "no", "a"), false)
		want(filepath.Join(a, "a"), false)
		want(filepath.Join(dir, "sub"), false)
		check(t, fsys.Rename(a, b))
		want(a, false)
		want(b, true)
		check(t, create(t, fsys, a, "text").Close())
		want(a, false)
		check(t, fsys.Remove(a))
		check(t, fsys.Rename(b, a))
		want(a, true)
		check(t, fsys.Remove(a))
		want(a, false)
		check(t, fsys.Remove(filepath.Join(dir, "sub")))
		want(a, false)
	})
}

func TestMkdirAll(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		deep := filepath.Join(dir, "x", "y", "z")
		check(t, fsys.MkdirAll(deep))
		check(t, fsys.MkdirAll(deep))
		check(t, create(t, fsys, filepath.Join(deep, "f"), "").Close())
		wantNames(t, fsys, deep, "f")
		wantNames(t, fsys, filepath.Join(dir, "x"), "y")
		if fsys.MkdirAll(filepath.Join(deep, "f")) == nil || fsys.MkdirAll(filepath.Join(deep, "f", "g")) == nil {
			t.Fatal("made a directory of a file")
		}
		if fsys.Remove(filepath.Join(dir, "x")) == nil {
			t.Fatal("removed a directory that is not empty")
		}
		if _, err := fsys.List(filepath.Join(deep, "f")); err == nil {
			t.Fatal("listed a file")
		}
		check(t, fsys.Remove(filepath.Join(deep, "f")))
		check(t, fsys.Remove(deep))
		wantNames(t, fsys, filepath.Join(dir, "x", "y"))
	})
}

func TestReadWrite(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name, "hello")
		put(t, f, 10000, "world")
		wantText(t, f, "hello"+string(make([]byte, 9995))+"world")

		buf := make([]byte, 10)
		if n, err := f.ReadAt(buf, 10000); n != 5 || err != io.EOF || string(buf[:n]) != "world" {
			t.Fatalf("read across the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(buf, 10005); n != 0 || err != io.EOF {
			t.Fatalf("read at the end: %d, %v", n, err)
		}
		if _, err := f.ReadAt(buf, -1); err == nil || err == io.EOF {
			t.Fatalf("read before the beginning: %v", err)
		}
		if _, err := f.WriteAt(buf, -1); err == nil {
			t.Fatal("wrote before the beginning")
		}

		check(t, f.Truncate(3))
		check(t, f.Truncate(6))
		wantText(t, f, "hel\x00\x00\x00")
		if f.Truncate(-1) == nil {
			t.Fatal("truncated to less than nothing")
		}
		check(t, f.Sync())
		if err := f.Allocate(0, 1<<16); err != nil {
			wantErr(t, err, errors.ErrUnsupported)
		}
		wantText(t, f, "hel\x00\x00\x00")

		r, err := fsys.Open(name, ReadOnly)
		check(t, err)
		wantText(t, r, "hel\x00\x00\x00")
		if _, err := r.WriteAt(buf, 0); err == nil {
			t.Fatal("wrote to a file opened for reading")
		}
		if r.Truncate(0) == nil {
			t.Fatal("truncated a file opened for reading")
		}
		put(t, f, 0, "other openers see this at once")
		wantText(t, r, "other openers see this at once")
		check(t, r.Close())
		check(t, f.Close())
	})
}

func TestClosed(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "x")
		check(t, f.Close())
		wantErr(t, f.Close(), fs.ErrClosed)
		wantErr(t, f.Sync(), fs.ErrClosed)
		wantErr(t, f.Truncate(0), fs.ErrClosed)
		_, err := f.ReadAt(make([]byte, 1), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = f.WriteAt([]byte("y"), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = f.Size()
		wantErr(t, err, fs.ErrClosed)
		if canMapOn(fsys) {
			_, err = f.Map(0, 1)
			wantErr(t, err, fs.ErrClosed)
			wantErr(t, f.Allocate(0, 1), fs.ErrClosed)
		}
	})
}

func TestOpenFileOutlivesItsName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a name lingers there")
	}
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		old := create(t, fsys, b, "old")
		check(t, create(t, fsys, a, "new").Close())
		check(t, fsys.Rename(a, b))
		put(t, old, 3, "er")
		wantText(t, old, "older")
		f, err := fsys.Open(b, ReadWrite)
		check(t, err)
		check(t, fsys.Remove(b))
		wantText(t, f, "new")
		check(t, f.Close())
		check(t, old.Close())
	})
}

// canMapOn reports whether fsys can map: memory always can.
func canMapOn(fsys FS) bool { return canMap || fsys != OS() }

func TestMap(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		if !canMapOn(fsys) {
			t.Skip("no mapping here")
		}
		size := int64(4 * os.Getpagesize())
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name, "start")
		defer f.Close()
		check(t, f.Truncate(size))
		off := size / 2
		put(t, f, off, "before")
		r, err := f.Map(off, int(size-off)-7)
		check(t, err)
		if b := r.Bytes(); len(b) != int(size-off)-7 || string(b[:6]) != "before" {
			t.Fatalf("mapped %d bytes: %q", len(b), b[:6])
		}

		r.Store(3, []byte("by store"))
		got := make([]byte, 11)
		_, err = f.ReadAt(got, off)
		check(t, err)
		if string(got) != "befby store" {
			t.Fatalf("ReadAt does not see Store: %q", got)
		}
		put(t, f, off+1, "WRITE")
		if !bytes.HasPrefix(r.Bytes(), []byte("bWRITEstore")) {
			t.Fatalf("Bytes do not show WriteAt: %q", r.Bytes()[:12])
		}
		check(t, r.Sync())
		check(t, f.Sync())

		again, err := f.Map(off, int(size-off)-7)
		check(t, err)
		r.Store(0, []byte("both"))
		if string(again.Bytes()[:4]) != "both" {
			t.Fatal("two regions of the same bytes differ")
		}
		check(t, again.Close())
		check(t, r.Close())
		if r.Close() == nil || r.Sync() == nil {
			t.Fatal("a closed region closes or syncs")
		}
		put(t, f, off, "still")
		_, err = f.ReadAt(got, off)
		check(t, err)
		if string(got) != "stillEstore" {
			t.Fatalf("after unmapping: %q", got)
		}
	})
}

func TestMapRefusals(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		if !canMapOn(fsys) {
			t.Skip("no mapping here")
		}
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name, string(make([]byte, 100)))
		defer f.Close()
		for _, c := range []struct {
			off int64
			n   int
		}{{0, 101}, {0, 0}, {0, -1}, {-int64(os.Getpagesize()), 10}, {int64(os.Getpagesize()), 1}, {7, 10}} {
			if _, err := f.Map(c.off, c.n); err == nil {
				t.Errorf("mapped %d bytes at %d of 100", c.n, c.off)
			}
		}
		ro, err := fsys.Open(name, ReadOnly)
		check(t, err)
		defer ro.Close()
		r, err := ro.Map(0, 100)
		check(t, err)
		put(t, f, 0, "seen")
		if string(r.Bytes()[:4]) != "seen" {
			t.Fatal("a mapping for reading does not show writes")
		}
		check(t, r.Close())
	})
}

func TestStoreBeyondTheRegionPanics(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		if !canMapOn(fsys) {
			t.Skip("no mapping here")
		}
		f := create(t, fsys, filepath.Join(dir, "f"), string(make([]byte, 100)))
		defer f.Close()
		r, err := f.Map(0, 50)
		check(t, err)
		defer r.Close()
		defer func() {
			if recover() == nil {
				t.Fatal("bytes beyond the region were dropped in silence")
			}
		}()
		r.Store(48, []byte("abc"))
	})
}

// TestFaultsAreErrors: a fault that would be a signal is an error, on the machine's file system and
// in memory, and a region that was cut serves again when the file has grown back.
func TestFaultsAreErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		if !canMapOn(fsys) {
			t.Skip("no mapping here")
		}
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name, string(make([]byte, 1<<17)))
		defer f.Close()
		r, err := f.Map(0, 1<<17)
		check(t, err)
		defer r.Close()
		ro, err := fsys.Open(name, ReadOnly)
		check(t, err)
		defer ro.Close()
		forReading, err := ro.Map(0, 1<<17)
		check(t, err)
		defer forReading.Close()
		if forReading.Store(0, []byte("x")) == nil {
			t.Error("stored to a file opened for reading")
		}
		check(t, r.Store(1<<16, []byte("abc")))
		b := make([]byte, 3)
		check(t, r.Load(1<<16, b))
		if string(b) != "abc" {
			t.Errorf("loaded %q", b)
		}
		check(t, f.Truncate(10))
		if r.Load(1<<16, b) == nil {
			t.Error("loaded from beyond the end of the file")
		}
		if r.Store(1<<16, b) == nil {
			t.Error("stored beyond the end of the file")
		}
		if r.Populate(1<<16, 1) == nil {
			t.Error("populated beyond the end of the file")
		}
		check(t, f.Truncate(1<<17))
		check(t, r.Populate(1<<16+5, 1<<15))
		check(t, r.Store(1<<16, []byte("xyz")))
		check(t, r.Load(1<<16, b))
		if string(b) != "xyz" {
			t.Errorf("loaded %q", b)
		}
	})
}

// TestView: later writes are seen, also beyond the former end of the file.
func TestView(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		if !canMapOn(fsys) {
			t.Skip("no mapping here")
		}
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name, "text")
		defer f.Close()
		ro, err := fsys.Open(name, ReadOnly)
		check(t, err)
		defer ro.Close()
		for _, of := range []File{f, ro} {
			v, err := of.View(1 << 20)
			check(t, err)
			defer v.Close()
			b := make([]byte, 4)
			check(t, v.Load(0, b))
			if string(b) != "text" {
				t.Errorf("loaded %q", b)
			}
			if v.Load(1<<19, b) == nil {
				t.Error("loaded bytes that the file does not have")
			}
			_, err = f.WriteAt([]byte("late"), 1<<19)
			check(t, err)
			check(t, v.Load(1<<19, b))
			if string(b) != "late" {
				t.Errorf("loaded %q", b)
			}
			check(t, f.Truncate(4))
			if v.Load(1<<19, b) == nil {
				t.Error("loaded bytes that the file does not have any more")
			}
			v.Trim(4)
			check(t, v.Load(0, b))
			if string(b) != "text" {
				t.Errorf("loaded %q when the rest was given back", b)
			}
		}
	})
}

func TestMappingTurnedOff(t *testing.T) {
	t.Setenv("COPAL_NO_MMAP", "1")
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "text")
		defer f.Close()
		_, err := f.Map(0, 4)
		wantErr(t, err, errors.ErrUnsupported)
		_, err = f.View(4)
		wantErr(t, err, errors.ErrUnsupported)
	})
}

// Whoever reads while others write must see the old byte or the new one, and the
// race detector nothing.
func TestConcurrentUse(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), string(make([]byte, 1<<16)))
		defer f.Close()
		var region Region
		if canMapOn(fsys) {
			r, err := f.Map(0, 1<<15)
			check(t, err)
			defer r.Close()
			region = r
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				p := make([]byte, 100)
				for j := range 50 {
					off := int64(i*10000 + j*100)
					if region != nil && off < 1<<14 {
						region.Store(int(off), bytes.Repeat([]byte{byte(i + 1)}, 100))
					} else if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, 100), off); err != nil {
						t.Error(err)
					}
					if _, err := f.ReadAt(p, off); err != nil || p[99] != byte(i+1) {
						t.Errorf("read back %d, %v", p[99], err)
					}
					f.Size()
					f.Sync()
				}
			})
		}
		wg.Wait()
	})
}

func TestCacheID(t *testing.T) {
	if id := OS().CacheID(t.TempDir()); id != "" && len(id) < 38 {
		t.Errorf("cache id %q", id)
	}
	m := NewMem()
	if m.CacheID("") == NewMem().CacheID("") {
		t.Error("two machines with one cache id")
	}
	m.SetCacheID("again")
	if m.CacheID("") != "again" {
		t.Errorf("cache id %q", m.CacheID(""))
	}
}

// A file has one ID under all of its names and for all who open it, and a copy of it has another.
func TestFileID(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "file"), "text")
		defer f.Close()
		copied := create(t, fsys, filepath.Join(dir, "copy"), "text")
		defer copied.Close()
		id := f.ID()
		if id == "" {
			t.Skip("this platform does not tell")
		}
		if copied.ID() == id {
			t.Errorf("two files have the ID %s", id)
		}
		check(t, fsys.Rename(filepath.Join(dir, "file"), filepath.Join(dir, "other")))
		again, err := fsys.Open(filepath.Join(dir, "other"), ReadOnly)
		check(t, err)
		defer again.Close()
		if again.ID() != id {
			t.Errorf("after a rename the ID is %s, it was %s", again.ID(), id)
		}
	})
}

// A kill and a power cut leave the file that there was.
func TestFileIDAfterACrash(t *testing.T) {
	m := NewCrashMem()
	f := create(t, m, "file", "text")
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	id := f.ID()
	images := []*Mem{m.ProcessCrash()}
	for image := range m.PowerCuts(3, nil) {
		images = append(images, image)
	}
	for i, image := range images {
		again, err := image.Open("file", ReadOnly)
		check(t, err)
		if again.ID() != id {
			t.Errorf("image %d: the ID is %s, it was %s", i, again.ID(), id)
		}
	}
}

func TestCopied(t *testing.T) {
	for _, x := range []struct {
		made, found string
		want        bool
	}{
		{"1f-6921b3c0.1f", "1f-6921b3c0.1f", false},
		{"1f-6921b3c0.1f", "20-6921b3c0.2a", true},
		{"1f-6921b3c0.1f", "1f-6921b3c0.2a", true},  // a copy that overlayfs makes of a lower file, or a number given again
		{"1f-6921b3c0.1f", "20-6921b3c0.1f", false}, // a file system that renumbers its files
		{"1f", "20", false},
		{"1f-6921b3c0.1f", "20", false},
		{"1f", "20-6921b3c0.1f", false},
		{"", "20-6921b3c0.1f", false},
		{"1f-6921b3c0.1f", "", false},
	} {
		if Copied(x.made, x.found) != x.want {
			t.Errorf("made as %q, found as %q: copied is %v", x.made, x.found, !x.want)
		}
	}
}

func TestNoSpace(t *testing.T) {
	if !IsNoSpace(pathError("write", "f", ErrNoSpace)) || IsNoSpace(nil) || IsNoSpace(io.ErrShortWrite) {
		t.Error("wrong about ErrNoSpace, nil or io.ErrShortWrite")
	}
	full, err := OS().Open("/dev/full", ReadWrite)
	if err != nil {
		t.Skip("no device that is always full")
	}
	defer full.Close()
	if _, err := full.WriteAt([]byte("x"), 0); !IsNoSpace(err) {
		t.Errorf("a full device says %v", err)
	}
}

func TestLink(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		wantErr(t, fsys.Link(a, b), fs.ErrNotExist)
		f := create(t, fsys, a, "text")
		check(t, fsys.Link(a, b))
		wantErr(t, fsys.Link(a, b), fs.ErrExist)
		wantNames(t, fsys, dir, "a", "b")
		put(t, f, 4, ", and more")
		check(t, f.Close())
		check(t, fsys.Remove(a))
		g, err := fsys.Open(b, ReadOnly)
		check(t, err)
		wantText(t, g, "text, and more")
		check(t, g.Close())
	})
}
