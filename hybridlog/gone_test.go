package hybridlog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestWorkingDirectoryChanges: a log that was opened by a relative name stays where it is.
func TestWorkingDirectoryChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := Open("log")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if _, err = l.Append([]byte("a")); errors.Join(err, l.Sync(), l.Close()) != nil {
		t.Errorf("%v, %v", err, l.Sync())
	}
}

// TestDirectoryGone: a directory that was removed or moved is an error of the next sync under each
// policy, and of Close.
func TestDirectoryGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be removed")
	}
	for how, leave := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
		"replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		},
	} {
		for what, tell := range map[string]func(l *Log) error{
			"Sync":       func(l *Log) error { _, err := l.Append([]byte("b")); return errors.Join(err, l.Sync()) },
			"AlwaysSync": func(l *Log) error { _, err := l.Append([]byte("b")); return err },
			"Close":      func(l *Log) error { _, err := l.Append([]byte("b")); return errors.Join(err, l.Close()) },
		} {
			t.Run(how+"/"+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "log")
				policy := NoSync
				if what == "AlwaysSync" {
					policy = AlwaysSync
				}
				told := 0
				l, err := Open(dir, SyncPolicy(policy), OnError(func(error) { told++ }))
				if err == nil {
					_, err = l.Append([]byte("a"))
				}
				if err = errors.Join(err, l.Sync(), leave(dir)); err != nil {
					t.Fatal(err)
				}
				var failed *FailedError
				if err := tell(l); !errors.As(err, &failed) || !strings.Contains(err.Error(), "moved the directory") {
					t.Errorf("%v", err)
				}
				if err := l.Close(); what != "Close" && !errors.As(err, &failed) {
					t.Errorf("Close: %v", err)
				}
				if told != 1 {
					t.Errorf("reported %d times", told)
				}
			})
		}
	}
}
