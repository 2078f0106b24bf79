package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(writerVariable); text != "" {
		os.Exit(runWriter(text))
	}
	os.Exit(m.Run())
}

// smallSource is one package of the standard library.
func smallSource(t *testing.T) string {
	root, err := goroot()
	if err != nil {
		t.Skip(err)
	}
	return filepath.Join(root, "src", "bytes")
}

func TestTour(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "library.db")
	var out, complaints bytes.Buffer
	if code := run(context.Background(), []string{"-dir", dir, "-src", smallSource(t), "-kills", "2"}, &out, &complaints); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out.Bytes(), complaints.Bytes())
	}
	for _, want := range []string{"in all", "2 kills", "0 lost, 0 wrong", "admin.Check", "0 problems", " length:", "Where to go next"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.Bytes())
		}
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("control characters in what is not a terminal:\n%q", out.Bytes())
	}
	if code := run(context.Background(), []string{"-dir", dir}, &out, &complaints); code != 1 || !strings.Contains(complaints.String(), "is not empty") {
		t.Errorf("a second tour of the same store: exit code %d, %s", code, complaints.Bytes())
	}
}

// TestStopped: an interrupted tour leaves no files.
func TestStopped(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // on Windows
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var out, complaints bytes.Buffer
	if code := run(ctx, []string{"-src", smallSource(t)}, &out, &complaints); code != 130 {
		t.Errorf("exit code %d, %s", code, complaints.Bytes())
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestProof: the check of the drafts finds missing, outdated and returned ones.
func TestProof(t *testing.T) {
	root := smallSource(t)
	files, err := (&tour{page: newPage(&bytes.Buffer{}), source: root}).read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	lib, err := openLibrary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lib.db.Close()
	want := newExpected(files)
	want.advance(0, 100)
	for key, d := range want.drafts {
		if err := lib.drafts.Set(key, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := want.verify(lib); err != nil {
		t.Fatalf("nothing is wrong, but: %v", err)
	}
	wrong := map[string]func(key string, d Draft) error{
		"missing": func(key string, _ Draft) error { _, err := lib.drafts.Delete(key); return err },
		"older":   func(key string, d Draft) error { d.Step--; return lib.drafts.Set(key, d) },
		"alien":   func(key string, d Draft) error { return lib.drafts.Set(key+"x", d) },
	}
	for name, spoil := range wrong {
		for key, d := range want.drafts {
			if err := spoil(key, d); err != nil {
				t.Fatal(err)
			}
			if want.verify(lib) == nil {
				t.Errorf("%s: not found", name)
			}
			lib.drafts.Delete(key + "x")
			if err := lib.drafts.Set(key, d); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
}
