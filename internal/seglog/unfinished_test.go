package seglog

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The file of docs/format.md.
const unfinishedGolden = "copal unfinished 1 work restore source /mnt/my%20backup 0524c22d\n"

func TestUnfinishedIsAsThePageSays(t *testing.T) {
	u := Unfinished{RestoreWork, "/mnt/my backup"}
	if got := string(u.encode()); got != unfinishedGolden {
		t.Errorf("it is %q", got)
	}
	for _, u := range []Unfinished{u, {RepairWork, "/ä\n%\x00\xff"}, {ImportWork, "-"}, {CopyWork, "redis://a:1"}, {BackupWork, "/"}} {
		text := u.encode()
		if got, err := parseUnfinished(text); err != nil || got != u {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
		for i := range text {
			for bit := range 8 {
				flipped := []byte(string(text))
				flipped[i] ^= 1 << bit
				if got, err := parseUnfinished(flipped); err == nil {
					t.Fatalf("%q is read as %q", flipped, got)
				}
			}
		}
	}
	newer := record.Seal([]byte("copal unfinished 2 anything"))
	if _, err := parseUnfinished(newer); !errors.Is(err, record.ErrVersion) {
		t.Errorf("a newer one: %v", err)
	}
}

func FuzzUnfinished(f *testing.F) {
	f.Add([]byte(unfinishedGolden))
	f.Add(Unfinished{RepairWork, "/ä\n%"}.encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		if u, err := parseUnfinished(text); err == nil && string(u.encode()) != string(text) {
			t.Errorf("%q is read as %q", text, u)
		}
	})
}

// TestMakeTakesOnlyItsOwn: files that other work has left, or that belong to another program, stay
// unchanged.
func TestMakeTakesOnlyItsOwn(t *testing.T) {
	u := Unfinished{RestoreWork, "/backup"}
	for name, there := range map[string]struct {
		work  *Unfinished
		files []string
		says  string
	}{
		"other files":        {nil, []string{"photo.jpg"}, "photo.jpg"},
		"another source":     {&Unfinished{RestoreWork, "/other"}, []string{"00000001.log"}, "interrupted restore of /other"},
		"another work":       {&Unfinished{RepairWork, "/backup"}, []string{"00000001.log"}, "interrupted repair of /backup"},
		"a partial import":   {&Unfinished{ImportWork, "-"}, []string{"00000001.log"}, "interrupted import of -"},
		"a file among ours":  {&u, []string{"00000001.log", "photo.jpg"}, "photo.jpg"},
		"nothing":            {nil, nil, ""},
		"what it has left":   {&u, []string{"00000001.log", "MANIFEST.tmp", "00000002.log"}, ""},
		"before the note":    {nil, []string{"UNFINISHED.tmp", "LOCK"}, ""},
		"a store without it": {nil, []string{"00000001.log"}, "00000001.log"},
	} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("new"); err != nil {
			t.Fatal(err)
		}
		if there.work != nil {
			if err := NoteUnfinished(mem, "new", *there.work); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range there.files {
			f, err := mem.Open("new/"+name, vfs.Create)
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		before, _ := mem.List("new")
		m, err := Make(mem, "new", u)
		after, _ := mem.List("new")
		switch {
		case there.says != "":
			if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), there.says) || strings.Join(after, " ") != strings.Join(before, " ") {
				t.Errorf("%s: %v, and %q of %q", name, err, after, before)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if _, err := Make(mem, "new", u); !errors.Is(err, ErrLocked) {
				t.Errorf("%s: a second one beside it: %v", name, err)
			}
			if err := CheckDir(mem, "new", true); !errors.Is(err, ErrUnfinished) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: meanwhile an opening says %v", name, err)
			}
			if err := m.End(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if left, _ := mem.List("new"); strings.Join(left, " ") != "LOCK" && strings.Join(left, " ") != "LOCK UNFINISHED.tmp" {
				t.Errorf("%s: it leaves %q", name, left)
			}
		}
	}
}
