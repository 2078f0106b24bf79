package hybridlog

import (
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// A process is killed within Trim, when the new manifest has its name, which is not durable. Whoever opens the
// log then finds it trimmed. When a Trim, or a Sync, says that this is durable, a power cut takes it back no
// more.
func TestTrimOfAKilledProcessIsDurable(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for name, act := range map[string]func(l *Log) error{
			"Sync":                   (*Log).Sync,
			"Trim":                   func(l *Log) error { return l.Trim(1000) },
			"Trim of less than that": func(l *Log) error { return l.Trim(500) },
		} {
			mem := vfs.NewCrashMem()
			l := mustOpen(t, mem, change, func(o *options) { o.policy = AlwaysSync })
			want := [][]byte{text(0, 500), text(1, 500), text(2, 500)}
			for _, p := range want {
				mustAppend(t, l, p)
			}
			var dead *vfs.Mem
			mem.OnBoundary(func(op vfs.Op, p vfs.Phase) {
				if p == vfs.After && op.Kind == vfs.OpRename && dead == nil {
					dead = mem.ProcessCrash()
				}
			})
			if err := l.Trim(1000); err != nil {
				t.Fatal(err)
			}
			mem.OnBoundary(nil)
			again := mustOpen(t, dead, change)
			if err := problem(again, want, 1000); err != nil {
				t.Fatal(err)
			}
			if err := act(again); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for image := range dead.PowerCuts(100, nil) {
				if err := problem(mustOpen(t, image, change), want, 1000); err != nil {
					t.Errorf("after %s and a power cut: %v", name, err)
					break
				}
			}
		}
	})
}
