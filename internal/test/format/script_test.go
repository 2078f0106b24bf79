package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// The scripts in testdata/scripts show the log beside its meaning. A line that begins with ">" is a
// command, one with "#" a remark; indented lines are its results. The records that a command has
// added to the segment files are among them as the files have them, each with its meaning beside
// it. TestLogScripts runs the commands and compares; -update writes the results.
//
// Salts and identities come from a fixed sequence and the clock moves by "advance" alone, so that
// checksums are the same in every run. The store has no ring: a record is in its file when the
// command returns.

func TestLogScripts(t *testing.T) {
	names, err := filepath.Glob("../../../testdata/scripts/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			wantScript(t, name, got, string(want))
		})
	}
}

// wantScript names the first line that differs.
func wantScript(t *testing.T, name, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		line := func(list []string) string { return strings.Join(list[min(i, len(list)):min(i+1, len(list))], "") }
		if line(g) != line(w) || i >= len(g) || i >= len(w) {
			t.Fatalf("%s:%d differs; -update rewrites it\n got %s\nwant %s", name, i+1, line(g), line(w))
		}
	}
}

// runScript returns the script with the results of its commands.
func runScript(t *testing.T, text string) string {
	r := &script{t: t, mem: vfs.NewMem(), clock: &tick{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") {
			continue // came of a command, when the script was written
		}
		r.out.WriteString(line)
		if command, ok := strings.CutPrefix(line, "> "); ok {
			r.run(strings.Fields(command))
		}
	}
	return r.out.String()
}

type script struct {
	t      *testing.T
	mem    *vfs.Mem
	clock  *tick
	random uint64
	ends   bool              // ExpiryEvents
	db     *copal.DB         // nil while the store is closed
	logs   map[string]string // the segment files when they were last shown
	out    strings.Builder
}

func (r *script) draw() uint64 {
	r.random += 0x9e3779b97f4a7c15
	return (r.random ^ r.random>>31) * 0xbf58476d1ce4e5b9
}

func (r *script) printf(format string, args ...any) {
	r.out.WriteString(strings.TrimRight("  "+fmt.Sprintf(format, args...), " ") + "\n")
}

// run does a command, and shows its result and its changes of the log, or "nothing".
func (r *script) run(words []string) {
	before := r.out.Len()
	if err := r.do(words[0], words[1:]); errors.Is(err, copal.ErrNotFound) {
		r.printf("not found")
	} else if err != nil {
		r.printf("error: %v", err)
	}
	r.show()
	if r.out.Len() == before {
		r.printf("nothing")
	}
}

func (r *script) do(name string, args []string) error {
	if c, ok := storeCommands[name]; ok && (len(args) == c.args || c.args < 0) {
		if r.db == nil {
			r.t.Fatalf("%s %q while no store is open", name, args)
		}
		return c.do(r, args)
	}
	if c, ok := diskCommands[name]; ok && len(args) == c.args {
		return c.do(r, args)
	}
	r.t.Fatalf("no command is called %s and takes %q", name, args)
	return nil
}

type scriptCommand struct {
	args int // how many; negative for any number
	do   func(r *script, args []string) error
}

// diskCommands can be given while the store is closed.
var diskCommands = map[string]scriptCommand{
	"open":     {0, func(r *script, _ []string) error { return r.open(0) }},
	"open-of":  {1, func(r *script, args []string) error { return r.open(r.number(args[0])) }}, // bytes a segment
	"ask-ends": {0, func(r *script, _ []string) error { r.ends = true; return nil }},           // of the openings to come
	"advance":  {1, func(r *script, args []string) error { r.clock.now = r.clock.now.Add(r.duration(args[0])); return nil }},
	"kill":     {0, func(r *script, _ []string) error { r.mem, r.db = r.mem.ProcessCrash(), nil; return nil }},
	"cut":      {1, func(r *script, args []string) error { return r.cut(r.number(args[0])) }}, // bytes, from the log's end
	"files":    {0, func(r *script, _ []string) error { r.files(); return nil }},
	"manifest": {0, func(r *script, _ []string) error { r.manifest(); return nil }},
}

// storeCommands are those of an open store.
var storeCommands = map[string]scriptCommand{
	"close": {0, func(r *script, _ []string) error { db := r.db; r.db = nil; return db.Close() }},
	"set":   {2, func(r *script, args []string) error { return r.db.Raw().Set([]byte(args[0]), r.value(args[1])) }},
	"set-ttl": {3, func(r *script, args []string) error {
		return r.db.Raw().SetTTL([]byte(args[0]), r.value(args[1]), r.duration(args[2]))
	}},
	"persist": {1, func(r *script, args []string) error { return r.db.Raw().Persist([]byte(args[0])) }},
	"delete":  {1, func(r *script, args []string) error { _, err := r.db.Raw().Delete([]byte(args[0])); return err }},
	"get": {1, func(r *script, args []string) error {
		value, err := r.db.Raw().Load([]byte(args[0]))
		if err == nil {
			r.printf("%s", oneLine(value))
		}
		return err
	}},
	"ttl": {1, func(r *script, args []string) error {
		left, err := r.db.Raw().TTL([]byte(args[0]))
		if err == nil {
			r.printf("%v", left)
		}
		return err
	}},
	"scan": {0, func(r *script, _ []string) error {
		for key, value := range r.db.Raw().Prefix(nil) {
			r.printf("%s = %s", key, oneLine(value))
		}
		return nil
	}},
	"group": {-1, func(r *script, args []string) error { return r.group(args) }},
	"hset": {3, func(r *script, args []string) error {
		return r.db.Raw().Hash([]byte(args[0])).Set(args[1], r.value(args[2]))
	}},
	"hdelete": {2, func(r *script, args []string) error {
		_, err := r.db.Raw().Hash([]byte(args[0])).Delete(args[1])
		return err
	}},
	"hash": {1, func(r *script, args []string) error {
		for field, value := range r.db.Raw().Hash([]byte(args[0])).All() {
			r.printf("%s = %s", field, value)
		}
		return nil
	}},
	"rename": {2, func(r *script, args []string) error { return r.db.Raw().Hash([]byte(args[0])).Rename(args[1]) }},
	"push": {-1, func(r *script, args []string) error {
		var list [][]byte
		for _, value := range args[1:] {
			list = append(list, r.value(value))
		}
		return r.db.Raw().List([]byte(args[0])).PushBack(list...)
	}},
	"push-front": {2, func(r *script, args []string) error {
		return r.db.Raw().List([]byte(args[0])).PushFront(r.value(args[1]))
	}},
	"pop": {1, func(r *script, args []string) error {
		value, ok, err := r.db.Raw().List([]byte(args[0])).PopFront()
		if ok {
			r.printf("%s", value)
		}
		return err
	}},
	"list": {1, func(r *script, args []string) error {
		for value := range r.db.Raw().List([]byte(args[0])).All() {
			r.printf("%s", value)
		}
		return nil
	}},
	"compact": {0, func(r *script, _ []string) error { return r.db.Compact(context.Background(), nil) }},
}

func (r *script) open(segment int64) error {
	opts := []copal.Option{kit.WithInline(), kit.WithoutRing(), kit.WithClock(r.clock), kit.WithRandom(r.draw), kit.WithSegmentBytes(segment)}
	if r.ends {
		opts = append(opts, copal.ExpiryEvents())
	}
	db, err := kit.TryOpen(r.t, r.mem, opts...)
	if err != nil {
		return err
	}
	r.db = db
	r.t.Cleanup(func() { db.Close() })
	stats := db.Stats()
	r.printf("keys: %d", stats.Keys)
	if stats.TornBytes > 0 {
		r.printf("%d bytes at the end of the log do not count", stats.TornBytes)
	}
	return nil
}

// group writes the commands between semicolons as one batch.
func (r *script) group(args []string) error {
	b := r.db.Raw().Batch()
	for change := range strings.SplitSeq(strings.Join(args, " "), ";") {
		switch words := strings.Fields(change); {
		case len(words) == 3 && words[0] == "set":
			b.Set([]byte(words[1]), r.value(words[2]))
		case len(words) == 2 && words[0] == "delete":
			b.Delete([]byte(words[1]))
		default:
			r.t.Fatalf("a group cannot %q", change)
		}
	}
	return b.Commit()
}

// cut takes bytes off the end of the newest segment.
func (r *script) cut(n int64) error {
	name := slices.Max(slices.Collect(maps.Keys(r.readLogs())))
	f, err := r.mem.Open(filepath.Join(kit.StoreDir, name), vfs.ReadWrite)
	if err != nil {
		return err
	}
	size, err := f.Size()
	return errors.Join(err, f.Truncate(size-n), f.Close())
}

func (r *script) files() {
	all := kit.ReadFiles(r.t, r.mem)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if kit.IsLog(name) {
			r.printf("%s has %d bytes", name, len(all[name]))
		} else {
			r.printf("%s", name)
		}
	}
}

// manifest shows the segments in the manifest.
func (r *script) manifest() {
	for line := range strings.Lines(string(kit.ReadFile(r.t, r.mem, filepath.Join(kit.StoreDir, "MANIFEST")))) {
		if strings.HasPrefix(line, "sealed ") || strings.HasPrefix(line, "open ") {
			r.printf("%s", strings.TrimSpace(line))
		}
	}
}

func (r *script) number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// value returns the value of a word; x*700000 is x repeated so often.
func (r *script) value(word string) []byte {
	text, times, ok := strings.Cut(word, "*")
	if !ok {
		return []byte(word)
	}
	return bytes.Repeat([]byte(text), int(r.number(times)))
}

var longRun = regexp.MustCompile(`x{100,}|y{100,}|z{100,}`)

// oneLine is text on one line, with x*700000 for so many x.
func oneLine(text []byte) string {
	quoted := strconv.QuoteToASCII(longRun.ReplaceAllStringFunc(string(text), func(run string) string {
		return fmt.Sprintf("%c*%d", run[0], len(run))
	}))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func (r *script) readLogs() map[string]string {
	if _, err := r.mem.List(kit.StoreDir); err != nil {
		return nil
	}
	all := kit.ReadFiles(r.t, r.mem)
	maps.DeleteFunc(all, func(name, _ string) bool { return !kit.IsLog(name) })
	return all
}

// meaningAt is the column, besides the indentation, of the meanings.
const meaningAt = 52

// show prints the changes of the segment files since its last call.
func (r *script) show() {
	logs, reader := r.readLogs(), &logReader{newest: map[string]uint64{}, groups: map[uint64][]groupMember{}}
	all := maps.Clone(logs)
	maps.Copy(all, r.logs)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, ok := logs[name]
		if !ok {
			r.printf("%s is gone", name)
			continue
		}
		lines, old := reader.read(text), r.logs[name]
		if text == old {
			continue
		}
		same := 0 // bytes of whole lines
		for len(lines) > 0 && lines[0].whole && strings.HasPrefix(old[same:], lines[0].text) {
			same += len(lines[0].text)
			lines = lines[1:]
		}
		switch {
		case old == "":
			r.printf("%s is new", name)
		case same == len(old):
			r.printf("%s has more", name)
		case len(text) < len(old):
			r.printf("%s ends at byte %d", name, len(text))
		default:
			r.printf("%s differs from byte %d on", name, same)
		}
		for _, line := range lines {
			shown := oneLine([]byte(strings.TrimSuffix(line.text, "\n")))
			if len(shown) > meaningAt-2 {
				r.printf("  %s", shown)
				shown = ""
			}
			for i, meaning := range line.meaning {
				if i > 0 {
					shown = ""
				}
				r.printf("  %-*s%s", meaningAt, shown, meaning)
			}
		}
	}
	r.logs = logs
}
