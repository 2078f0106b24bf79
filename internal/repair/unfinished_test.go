package repair_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestDamagedNoteOfUnfinishedWork: where the note of unfinished work is damaged, nothing says how much of the store has
// been made. Neither a repair nor an opening takes it for a whole one, and no later work clears it.
func TestDamagedNoteOfUnfinishedWork(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem)
	storetest.Set(t, s, "k", "v")
	storetest.Close(t, s)
	restore := seglog.Unfinished{Work: seglog.RestoreWork, Source: "/backup"}
	if err := seglog.NoteUnfinished(mem, "db", restore); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join("db", seglog.UnfinishedName)
	logtest.DamageIn(t, mem, note, "restore")

	var corrupt *seglog.CorruptError
	if _, err := repair.Repair(context.Background(), "db", "mended", repair.Options{FS: mem}); !errors.As(err, &corrupt) || corrupt.File != note {
		t.Errorf("Repair: %v", err)
	}
	if list, err := mem.List("mended"); err == nil && len(list) > 0 {
		t.Errorf("the repair has made %v", list)
	}
	if _, err := storetest.TryOpen(mem); !errors.As(err, &corrupt) || corrupt.File != note {
		t.Errorf("Open: %v", err)
	}
	if _, err := seglog.Make(mem, "db", restore); !errors.As(err, &corrupt) || corrupt.File != note {
		t.Errorf("Make: %v", err)
	}
}
