package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// The log of a live store is text: cat, grep and tail -f show every record up to the newest, as
// soon as the ring was drained, which every sync does first.
func TestLogIsReadable(t *testing.T) {
	type user struct {
		Name string
		Age  int
	}
	dir := filepath.Join(t.TempDir(), "app.db")
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	users := kit.MapOf[string, user](t, db, "users")
	lines := func() []string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil || len(names) != 1 {
			t.Fatalf("segments %v, %v", names, err)
		}
		text, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(string(text), 0) || !strings.HasSuffix(string(text), "\n") {
			t.Errorf("the log is not lines of text: %q", text)
		}
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	for i, step := range []struct {
		do   func() error
		last string // how the last line of the log ends
	}{
		{func() error { return users.Set("alice", user{"Alice <a@b>", 28}) }, ` users:alice {"Name":"Alice <a@b>","Age":28}`},
		{func() error { return users.Set("bob", user{"Bob", 30}) }, ` users:bob {"Name":"Bob","Age":30}`},
		{func() error { _, err := users.Delete("alice"); return err }, ` users:alice `},
		{func() error { return copal.Set(db, "limits", []int{1, 2}) }, ` limits [1,2]`},
		{func() error { return db.Raw().Set([]byte("raw"), []byte("any text")) }, ` raw any text`},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if err := db.Sync(); err != nil {
			t.Fatal(err)
		}
		all := lines()
		if last := all[len(all)-1]; !strings.HasSuffix(last, step.last) {
			t.Errorf("after step %d the log ends with %q, want …%q", i, last, step.last)
		}
	}
	if all := lines(); !strings.HasPrefix(all[0], "copal log 1 segment 1 ") {
		t.Errorf("the log begins with %q", all[0])
	}
}
