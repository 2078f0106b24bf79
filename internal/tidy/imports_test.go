package tidy

import (
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// arrows has, for each package of the library, its servers and its tests, and for each part of the command, the other
// packages of the module that it imports. Those of outer may import any.
var arrows = map[string][]string{
	".":                             {"codec", "internal/backup", "internal/cache", "internal/compaction", "internal/detach", "internal/driver", "internal/elements", "internal/engine", "internal/feed", "internal/files", "internal/keycodec", "internal/keyrange", "internal/opened", "internal/record", "internal/render", "internal/seglog", "internal/store", "internal/stream", "internal/vfs"},
	"access":                        {".", "internal/sparing"},
	"admin":                         {".", "codec", "internal/backup", "internal/driver", "internal/engine", "internal/files", "internal/keycodec", "internal/keyrange", "internal/opened", "internal/pairs", "internal/render", "internal/repair", "internal/seglog", "internal/span", "internal/stream", "internal/vfs"},
	"codec":                         {"internal/jsontext", "internal/promoted"},
	"httpapi":                       {".", "access", "admin", "internal/budget", "internal/built", "internal/exposition", "internal/jsontext", "internal/ndjson", "internal/strangers", "internal/turns", "internal/typedoc"},
	"hybridlog":                     {"internal/clock", "internal/files", "internal/grace", "internal/laps", "internal/record", "internal/tail", "internal/vfs"},
	"internal/backup":               {"internal/files", "internal/record", "internal/seglog", "internal/engine", "internal/store", "internal/vfs"},
	"internal/bench/chart":          {},
	"internal/budget":               {},
	"internal/built":                {"internal/record"},
	"internal/cache":                {"internal/index"},
	"internal/checkpoint":           {"internal/cache", "internal/index", "internal/record", "internal/seglog"},
	"internal/clock":                {},
	"internal/collection":           {"internal/record", "internal/span"},
	"internal/compaction":           {"internal/record", "internal/seglog", "internal/engine"},
	"internal/copying":              {".", "admin", "internal/driver", "internal/engine", "internal/keyrange", "internal/opened", "internal/pairs", "internal/positions", "internal/rdb"},
	"internal/crashtest":            {"internal/files", "internal/tail", "internal/vfs"},
	"internal/detach":               {},
	"internal/disktest":             {},
	"internal/driver":               {"internal/engine", "internal/keycodec"},
	"internal/elements":             {"internal/driver", "internal/engine", "internal/keycodec", "internal/positions"},
	"internal/engine":               {"internal/cache", "internal/checkpoint", "internal/clock", "internal/collection", "internal/files", "internal/goid", "internal/grace", "internal/index", "internal/keycodec", "internal/keyhash", "internal/keyrange", "internal/order", "internal/record", "internal/repair", "internal/seglog", "internal/span", "internal/sysmem", "internal/vfs", "internal/warm"},
	"internal/exposition":           {},
	"internal/feed":                 {"internal/collection", "internal/engine", "internal/keyrange", "internal/record", "internal/seglog"},
	"internal/files":                {"internal/record", "internal/vfs"},
	"internal/follow":               {"internal/seglog", "internal/engine"},
	"internal/followtest":           {},
	"internal/geohash":              {},
	"internal/glob":                 {},
	"internal/hyperloglog":          {},
	"internal/goid":                 {},
	"internal/grace":                {},
	"internal/index":                {},
	"internal/jitter":               {},
	"internal/jsontext":             {},
	"internal/keycodec":             {"internal/promoted"},
	"internal/keyhash":              {},
	"internal/keyrange":             {"internal/keycodec", "internal/record", "internal/span"},
	"internal/killtest":             {},
	"internal/laps":                 {"internal/vfs"},
	"internal/linear":               {},
	"internal/logtest":              {"internal/files", "internal/record", "internal/sysmem", "internal/vfs"},
	"internal/mutants":              {},
	"internal/ndjson":               {"admin", "internal/jsontext"},
	"internal/opened":               {"codec", "internal/driver", "internal/engine", "internal/render", "internal/vfs"},
	"internal/order":                {"internal/record"},
	"internal/pagetest":             {},
	"internal/pairs":                {},
	"internal/positions":            {},
	"internal/promoted":             {},
	"internal/rdb":                  {"internal/redisstream"},
	"internal/record":               {},
	"internal/redisserver":          {"internal/resp"},
	"internal/redisstream":          {},
	"internal/render":               {"codec", "internal/engine"},
	"internal/repair":               {"internal/files", "internal/record", "internal/seglog", "internal/tail", "internal/vfs"},
	"internal/resp":                 {},
	"internal/seglog":               {"internal/clock", "internal/files", "internal/index", "internal/laps", "internal/record", "internal/tail", "internal/vfs", "internal/warm"},
	"internal/serial":               {},
	"internal/span":                 {"internal/order"},
	"internal/sparing":              {},
	"internal/strangers":            {"internal/sparing"},
	"internal/store":                {"internal/compaction", "internal/engine", "internal/follow", "internal/seglog"},
	"internal/storetest":            {"internal/cache", "internal/compaction", "internal/engine", "internal/logtest", "internal/seglog", "internal/store", "internal/vfs"},
	"internal/stream":               {"internal/record", "internal/seglog", "internal/engine"},
	"internal/sysmem":               {},
	"internal/tail":                 {"internal/clock", "internal/files", "internal/laps", "internal/record", "internal/vfs"},
	"internal/test/collections":     {},
	"internal/test/crash":           {},
	"internal/test/expiry":          {},
	"internal/test/format":          {},
	"internal/test/history":         {},
	"internal/test/kit":             {".", "codec", "internal/clock", "internal/engine", "internal/keycodec", "internal/logtest", "internal/opened", "internal/repair", "internal/vfs"},
	"internal/test/memory":          {},
	"internal/test/models":          {},
	"internal/test/open":            {},
	"internal/test/order":           {},
	"internal/test/surface":         {},
	"internal/test/tx":              {},
	"internal/test/types":           {},
	"internal/test/watch":           {},
	"internal/turns":                {},
	"internal/typedoc":              {"codec"},
	"internal/vfs":                  {},
	"internal/warm":                 {},
	"internal/wire":                 {},
	"redisapi":                      {".", "access", "admin", "internal/budget", "internal/exposition", "internal/glob", "internal/redisstream", "internal/resp", "internal/sparing", "internal/strangers", "internal/sysmem", "redisapi/internal/blocking", "redisapi/internal/command", "redisapi/internal/events", "redisapi/internal/geo", "redisapi/internal/hashes", "redisapi/internal/keys", "redisapi/internal/lists", "redisapi/internal/native", "redisapi/internal/server", "redisapi/internal/sets", "redisapi/internal/sortedsets", "redisapi/internal/streams", "redisapi/internal/strings"},
	"redisapi/internal/blocking":    {"redisapi/internal/command", "redisapi/internal/lists", "redisapi/internal/sortedsets"},
	"redisapi/internal/command":     {".", "access", "admin", "internal/budget", "internal/resp", "internal/turns", "internal/wire", "redisapi/internal/events"},
	"redisapi/internal/events":      {},
	"redisapi/internal/commandtest": {".", "access", "internal/budget", "redisapi/internal/command"},
	"redisapi/internal/elements":    {"admin", "internal/glob", "redisapi/internal/command"},
	"redisapi/internal/geo":         {".", "internal/geohash", "redisapi/internal/command", "redisapi/internal/sortedsets"},
	"redisapi/internal/hashes":      {".", "redisapi/internal/command", "redisapi/internal/elements"},
	"redisapi/internal/keys":        {".", "admin", "internal/glob", "internal/rdb", "redisapi/internal/command", "redisapi/internal/elements"},
	"redisapi/internal/lists":       {".", "redisapi/internal/command"},
	"redisapi/internal/native":      {".", "admin", "internal/wire", "redisapi/internal/command", "redisapi/internal/keys", "redisapi/internal/streams", "redisapi/internal/strings"},
	"redisapi/internal/server":      {"internal/glob", "redisapi/internal/command"},
	"redisapi/internal/sets":        {".", "redisapi/internal/command", "redisapi/internal/elements"},
	"redisapi/internal/sortedsets":  {".", "internal/resp", "redisapi/internal/command", "redisapi/internal/elements"},
	"redisapi/internal/streams":     {".", "internal/redisstream", "redisapi/internal/command"},
	"redisapi/internal/strings":     {".", "internal/hyperloglog", "redisapi/internal/command"},
	"remote":                        {".", "internal/driver", "internal/engine", "internal/keycodec", "internal/keyrange", "internal/opened", "internal/wire"},

	"cmd/copal/internal/changes":   {".", "admin", "cmd/copal/internal/cli", "cmd/copal/internal/fields", "internal/ndjson"},
	"cmd/copal/internal/cli":       {".", "admin", "cmd/copal/internal/socket", "internal/copying", "internal/files", "internal/glob", "internal/ndjson", "internal/opened", "internal/seglog", "internal/vfs", "remote"},
	"cmd/copal/internal/comparing": {".", "admin", "cmd/copal/internal/changes", "cmd/copal/internal/cli", "cmd/copal/internal/fields", "cmd/copal/internal/scratch", "internal/copying", "internal/ndjson"},
	"cmd/copal/internal/entries":   {".", "admin", "cmd/copal/internal/cli", "internal/ndjson"},
	"cmd/copal/internal/exporting": {".", "admin", "cmd/copal/internal/cli", "cmd/copal/internal/scratch", "internal/ndjson", "internal/vfs"},
	"cmd/copal/internal/fields":    {"internal/jsontext"},
	"cmd/copal/internal/importers": {".", "admin", "internal/files", "internal/ndjson", "internal/positions", "internal/rdb", "internal/resp", "internal/vfs", "redisapi"},
	"cmd/copal/internal/importing": {".", "admin", "cmd/copal/internal/cli", "cmd/copal/internal/importers", "cmd/copal/internal/scratch", "codec", "internal/copying", "internal/files", "internal/ndjson", "internal/seglog", "internal/vfs"},
	"cmd/copal/internal/measuring": {".", "admin", "cmd/copal/internal/cli", "internal/bench/rivals", "internal/bench/study", "internal/bench/table", "internal/files", "internal/vfs"},
	"cmd/copal/internal/migrating": {".", "cmd/copal/internal/cli", "internal/copying", "internal/files", "internal/seglog"},
	"cmd/copal/internal/scratch":   {".", "admin", "internal/copying"},
	"cmd/copal/internal/serving":   {".", "access", "cmd/copal/internal/cli", "cmd/copal/internal/socket", "cmd/copal/internal/tlsfiles", "httpapi", "internal/budget", "internal/exposition", "internal/sparing", "internal/strangers", "internal/vfs", "redisapi"},
	"cmd/copal/internal/shell":     {".", "cmd/copal/internal/cli", "internal/files"},
	"cmd/copal/internal/socket":    {},
	"cmd/copal/internal/tlsfiles":  {},
	"cmd/copal/internal/upkeep":    {".", "admin", "cmd/copal/internal/cli", "httpapi", "internal/copying", "internal/driver", "internal/files", "internal/opened", "internal/seglog", "internal/typedoc", "internal/vfs"},
}

// outer are the directories that no other package imports, and that alone use third-party packages. Packages
// below internal/bench are for cmd and bench, and remote is for users of a store on another machine.
var outer = []string{"cmd", "examples", "bench", "internal/bench", "remote"}

// rooms are packages above the engine that do not import each other. Their users are the public packages, and
// internal/store, which gives a store those that work by themselves.
var rooms = []string{"internal/backup", "internal/compaction", "internal/feed", "internal/follow", "internal/stream"}

func TestImportArrows(t *testing.T) {
	used := map[string]bool{}
	walkGo(t, parser.ImportsOnly, func(f goFile) {
		if f.test {
			return
		}
		allowed, listed := arrows[f.dir]
		if !used[f.dir] && !listed && !f.in(outer...) && !f.in("internal/tidy", ".ci") {
			t.Errorf("the package %s has no line in arrows", f.dir)
		}
		used[f.dir] = true
		for _, p := range f.imports() {
			own, ok := ownPackage(p)
			if !ok {
				continue
			}
			used[f.dir+" "+own] = true
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
	for dir, allowed := range arrows {
		if !used[dir] {
			t.Errorf("there is no package %s, which has a line in arrows", dir)
		}
		for _, own := range allowed {
			if !used[dir+" "+own] {
				t.Errorf("%s does not import %s any more: its arrow can go", dir, own)
			}
		}
	}
}

// A user of the library links only the standard library and golang.org/x/sys. The tests of the
// public packages are as strict, because what they import is in the user's go.sum.
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
