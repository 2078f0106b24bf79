package killtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// TestUnfinishedStore: a process that dies while it makes the first segment leaves a
// file of the log without a whole header, and no manifest. Open takes it for the empty
// store that it is, and so must Check. Found by TestKill.
func TestUnfinishedStore(t *testing.T) {
	for _, header := range []string{"", "copal segment 1 id"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "00000001.log"), []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := copal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err := admin.Check(context.Background(), dir, nil); err != nil {
			t.Errorf("header %q: Open finds an empty store, Check says %v, %v", header, r, err)
		}
	}
}
