package repair_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// dying is a real file system on which a process dies before one of its operations. It knows the renames that a
// power cut may undo.
type dying struct {
	vfs.FS
	above     string
	exchanges bool
	left      int        // operations before death
	undo      [][]string // renames since the directory above was synced, in their undone form
}

var errDead = errors.New("dead")

func (d *dying) step() error {
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

func (d *dying) Rename(from, to string) error {
	err := d.step()
	if err == nil {
		err = d.FS.Rename(from, to)
	}
	if err == nil && filepath.Dir(to) == d.above {
		d.undo = append(d.undo, []string{to, from})
	}
	return err
}

func (d *dying) Exchange(a, b string) error {
	if !d.exchanges {
		return errors.ErrUnsupported
	}
	err := d.step()
	if err == nil {
		err = vfs.Exchange(d.FS, a, b)
	}
	if err == nil {
		d.undo = append(d.undo, []string{a, b, "exchange"})
	}
	return err
}

func (d *dying) SyncDir(dir string) error {
	err := d.step()
	if err == nil && dir == d.above {
		d.undo = nil
	}
	return err
}

func (d *dying) Remove(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.FS.Remove(name)
}

func (d *dying) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if mode == vfs.Create {
		if err := d.step(); err != nil {
			return nil, err
		}
	}
	return d.FS.Open(name, mode)
}

// cutPower undoes the last renames that were not synced, as many as said.
func (d *dying) cutPower(t *testing.T, n int) {
	for ; n > 0; n-- {
		last := d.undo[len(d.undo)-1]
		d.undo = d.undo[:len(d.undo)-1]
		var err error
		if len(last) == 3 {
			err = vfs.Exchange(d.FS, last[0], last[1])
		} else {
			err = d.FS.Rename(last[0], last[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRepairInPlaceDies before each operation, and with the power at that: an opening says the truth, and the same
// repair again puts the whole store in its place, and the damaged one beside it, once.
func TestRepairInPlaceDies(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tried := filepath.Join(base, "try")
	can := os.Mkdir(tried, 0o777) == nil && vfs.Exchange(vfs.OS(), base, base) == nil // else Linux refuses it here
	if !can && errors.Is(vfs.Exchange(vfs.OS(), tried, tried), errors.ErrUnsupported) {
		t.Log("names cannot be exchanged here")
	} else {
		can = true
	}
	small := engine.Options{SegmentBytes: 900, Inline: true}
	s, err := store.Open(filepath.Join(base, "sound"), small)
	if err != nil {
		t.Fatal(err)
	}
	storetest.FillFrom(t, s, 0, 30)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := os.DirFS(filepath.Join(base, "sound"))
	for _, exchanges := range []bool{true, false} {
		if exchanges && !can {
			continue
		}
		states := map[string]int{}
		for n, ended := 0, false; !ended; n++ {
			for cut := 0; ; cut++ {
				above := filepath.Join(base, fmt.Sprint(exchanges, n, cut))
				dir := filepath.Join(above, "db")
				if err := os.CopyFS(dir, damaged); err != nil {
					t.Fatal(err)
				}
				flip(t, filepath.Join(dir, "00000002.log"))
				where := fmt.Sprintf("exchange %v, death %d, cut %d", exchanges, n, cut)
				d := &dying{FS: vfs.OS(), above: above, exchanges: exchanges, left: n}
				_, _, err := repair.InPlace(t.Context(), dir, repair.Options{FS: d})
				if ended = err == nil; ended && n < 15 {
					t.Fatalf("%s: it is through", where)
				}
				if err != nil && !errors.Is(err, errDead) {
					t.Fatalf("%s: %v", where, err)
				}
				more := cut < len(d.undo)
				if !ended {
					d.cutPower(t, min(cut, len(d.undo)))
				}
				states[state(t, dir, where)]++
				if _, err := os.Stat(dir); err != nil && exchanges {
					t.Fatalf("%s: there is no directory", where)
				}
				left := &dying{FS: vfs.OS(), above: above, exchanges: exchanges, left: 1 << 30}
				if state(t, dir, where) != "sound" { // else there is nothing to repair
					report, aside, err := repair.InPlace(t.Context(), dir, repair.Options{FS: left})
					if err != nil || aside != dir+".damaged" || len(report.Lost) != 1 {
						t.Fatalf("%s: the same repair again: %+v, %s, %v", where, report, aside, err)
					}
				}
				if got := state(t, dir, where); got != "sound" {
					t.Fatalf("%s: in the end it is %s", where, got)
				}
				if got := state(t, dir+".damaged", where); got != "damaged" {
					t.Fatalf("%s: beside it there is something %s", where, got)
				}
				names, _ := vfs.OS().List(above)
				if strings.Join(names, " ") != "db db.damaged" {
					t.Fatalf("%s: there is %q", where, names)
				}
				os.RemoveAll(above)
				if !more || ended {
					break
				}
			}
		}
		if states["damaged"] == 0 || states["unfinished"] == 0 || states["missing"] == 0 != exchanges {
			t.Errorf("exchange %v: the states were %v", exchanges, states)
		}
		t.Logf("exchange %v: %v", exchanges, states)
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// state is how an opening finds a store.
func state(t *testing.T, dir, where string) string {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	found, err := engine.Check(t.Context(), dir, vfs.OS(), nil)
	switch {
	case errors.Is(err, seglog.ErrUnfinished):
		return "unfinished"
	case err != nil:
		t.Fatalf("%s: %v", where, err)
	case len(found.Problems) > 0:
		return "damaged"
	}
	return "sound"
}
