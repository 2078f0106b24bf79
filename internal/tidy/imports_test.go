package tidy

import (
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// arrows says for the inner packages which others of ours they may import. A package that is
// not listed may import any but commands and examples.
var arrows = map[string][]string{
	"codec":                {"internal/promoted"},
	"hybridlog":            {"internal/clock", "internal/files", "internal/grace", "internal/laps", "internal/record", "internal/tail", "internal/vfs"},
	"internal/backup":      {"internal/files", "internal/record", "internal/seglog", "internal/engine", "internal/store", "internal/vfs"},
	"internal/bench/chart": {},
	"internal/cache":       {"internal/index"},
	"internal/checkpoint":  {"internal/cache", "internal/files", "internal/index", "internal/record", "internal/seglog"},
	"internal/clock":       {},
	"internal/compaction":  {"internal/record", "internal/seglog", "internal/engine"},
	"internal/detach":      {},
	"internal/driver":      {"internal/engine"},
	"internal/feed":        {"internal/record", "internal/seglog", "internal/engine"},
	"internal/files":       {"internal/record", "internal/vfs"},
	"internal/follow":      {"internal/seglog", "internal/engine"},
	"internal/goid":        {},
	"internal/grace":       {},
	"internal/index":       {},
	"internal/keycodec":    {"internal/promoted"},
	"internal/keyhash":     {},
	"internal/laps":        {"internal/vfs"},
	"internal/order":       {"internal/record"},
	"internal/positions":   {},
	"internal/promoted":    {},
	"internal/record":      {},
	"internal/rdb":         {"internal/redisstream"},
	"internal/redisstream": {},
	"internal/render":      {"codec", "internal/engine"},
	"internal/repair":      {"internal/files", "internal/record", "internal/seglog", "internal/tail", "internal/vfs"},
	"internal/resp":        {},
	"internal/seglog":      {"internal/clock", "internal/files", "internal/index", "internal/laps", "internal/record", "internal/tail", "internal/vfs", "internal/warm"},
	"internal/engine":      {"internal/cache", "internal/checkpoint", "internal/clock", "internal/files", "internal/goid", "internal/grace", "internal/index", "internal/keycodec", "internal/keyhash", "internal/laps", "internal/order", "internal/record", "internal/repair", "internal/seglog", "internal/sysmem", "internal/vfs", "internal/warm"},
	"internal/store":       {"internal/compaction", "internal/engine", "internal/follow", "internal/seglog"},
	"internal/stream":      {"internal/record", "internal/seglog", "internal/engine"},
	"internal/sysmem":      {},
	"internal/tail":        {"internal/clock", "internal/files", "internal/laps", "internal/record", "internal/vfs"},
	"internal/vfs":         {},
	"internal/warm":        {},
}

// outer are the directories that nobody else imports, and that alone use other people's packages. What stands
// below internal/bench is for cmd and bench, and remote is for whoever wants a store on another machine.
var outer = []string{"cmd", "examples", "bench", "internal/bench", "remote"}

// rooms stand above the engine and know nothing of each other. Their users are the public packages, and
// internal/store, which gives a store those that work by themselves.
var rooms = []string{"internal/backup", "internal/compaction", "internal/feed", "internal/follow", "internal/stream"}

func TestImportArrows(t *testing.T) {
	walkGo(t, parser.ImportsOnly, func(f goFile) {
		if f.test {
			return
		}
		allowed, listed := arrows[f.dir]
		for _, p := range f.imports() {
			own, ok := ownPackage(p)
			if !ok {
				continue
			}
			target := goFile{dir: own}
			if target.in(outer...) && !f.in(outer...) {
				t.Errorf("%s imports %s, which only %q import", f.name, own, outer)
			}
			if slices.Contains(rooms, own) && f.dir != "." && !f.in("admin", "cmd", "internal/store", "internal/storetest") {
				t.Errorf("%s imports %s, a room above the engine", f.name, own)
			}
			if listed && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s; %s may import of ours only %q", f.name, own, f.dir, allowed)
			}
		}
	})
}

// What a user of the library links is the standard library and golang.org/x/sys. The tests
// of the public packages are as strict, because what they import is in the user's go.sum.
func TestLibraryNeedsNoOtherModule(t *testing.T) {
	walkGo(t, parser.ImportsOnly, func(f goFile) {
		if f.in(outer...) || f.test && f.in("internal") {
			return
		}
		for _, p := range f.imports() {
			if _, own := ownPackage(p); own || isStandard(p) {
				continue
			}
			if !strings.HasPrefix(p, "golang.org/x/sys/") {
				t.Errorf("%s imports %s", f.name, p)
			}
		}
	})
}

// ownPackage returns the directory of a package of this module, "." for the root.
func ownPackage(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
