package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Repair. A small store is damaged in every way, in every file. The expected content of the repaired one is
// computed without the code under test: the records of the whole store and their places are read from the
// undamaged files, and a record is intact if its bytes are unchanged in one of its places.

// original is a record of the undamaged store.
type original struct {
	record.Head
	key, value string
	id         record.SegmentID
	at         int64
	bytes      string
}

func (o *original) String() string {
	return fmt.Sprintf("%c%c %x %d %.30q=%.30q", o.Op, o.Kind, o.Seq, o.Schema, o.key, o.value)
}

// readOriginals reads the records of a store that was closed, segment by segment, as the format says.
func readOriginals(t testing.TB, fsys vfs.FS, dir string) (list []original) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		id, ok := record.ParseFileName(name)
		if !ok {
			continue
		}
		text := contentOfFile(t, fsys, filepath.Join(dir, name))
		h, at, err := record.ParseSegmentHeader([]byte(text[:min(len(text), record.MaxHeaderBytes)]))
		if err != nil || h.ID != id {
			t.Fatalf("%s: %v", name, err)
		}
		for at < len(text) {
			head, n, err := record.Parse([]byte(text[at:min(len(text), at+record.MaxHeadBytes)]))
			if err != nil {
				t.Fatalf("%s at %d: %v", name, at, err)
			}
			b := text[at : at+head.Length(n)]
			key, value, err := h.Salt.Verify([]byte(b), int64(at), &head, n)
			if err != nil {
				t.Fatalf("%s at %d: %v", name, at, err)
			}
			head.Time += h.Start
			list = append(list, original{head, string(key), string(value), id, int64(at), b})
			at += len(b)
		}
	}
	return list
}

var (
	contentOfFile = logtest.ContentOfFile
	contentOfDir  = logtest.ContentOfDir
)

// patientVictim is a store to be repaired.
type patientVictim struct {
	mem       *vfs.Mem
	originals []original
	ring      int64 // its size, 0 for none
	content   map[string]string
	rng       *rand.Rand
}

// newPatient makes a store of a few small segments with schemas, maps, deletions and overwritten
// keys, that was closed, or whose process died.
func newPatient(t *testing.T, end ending) *patientVictim {
	t.Helper()
	mem := vfs.NewMem()
	seed := uint64(0)
	options := func(o *Options) {
		o.SegmentBytes = 900
		o.Random = func() uint64 { seed++; return seed * 0x9e3779b97f4a7c15 }
	}
	s := mustOpen(t, mem, options)
	schema, err := s.SchemaNumber(Schema{"json", "int"})
	if err != nil {
		t.Fatal(err)
	}
	users, err := s.Map("users")
	if err != nil {
		t.Fatal(err)
	}
	write := func(i int) {
		if err := s.Set(users, fmt.Appendf(nil, "users:%d", i%7), fmt.Appendf(nil, "%d", i), schema, Process); err != nil {
			t.Fatal(err)
		}
		mustSet(t, s, fmt.Sprintf("raw %d", i%5), strings.Repeat(fmt.Sprint(i), i%40))
		if i%6 == 5 {
			if _, err := s.Delete(nil, fmt.Appendf(nil, "raw %d", i%5), Process); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 30 {
		write(i)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		write(100 + i)
	}
	if end == closed {
		mustClose(t, s)
	}
	v := &patientVictim{mem: mem.ProcessCrash(), rng: rand.New(rand.NewPCG(1, 1))}
	whole := mem.ProcessCrash()
	if end != closed { // a write makes the next process put all into the files
		again := mustOpen(t, whole, options)
		v.content = contentsOf(t, again)
		mustSet(t, again, "mended", "")
		mustClose(t, again)
	}
	v.originals = readOriginals(t, whole, "db")
	if end != closed {
		v.originals = v.originals[:len(v.originals)-1]
		if text := contentOfFile(t, v.mem, "db/RING"); text != "\x00missing" {
			v.ring = int64(len(text)) - seglog.RingHead
		}
	}
	if want := v.modelOf(v.originals); v.content != nil && render(want) != render(v.content) {
		t.Fatalf("the model of the test says\n%s, the store\n%s", render(want), render(v.content))
	}
	return v
}

func contentsOf(t testing.TB, s *Store) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, table := range s.Tables() {
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			content[string(item.Key)] = fmt.Sprintf("%d %s", item.Schema, item.Value)
		}
	}
	return content
}

// contentIn opens the store in dir to read and returns its content, or "" when there is none.
func contentIn(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	s, err := Open(dir, testOptions(fsys, func(o *Options) { o.ReadOnly = true }))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, seglog.ErrCorrupt) && contentOfFile(t, fsys, filepath.Join(dir, seglog.ManifestName)) == "\x00missing" {
		return ""
	}
	if err != nil {
		t.Fatalf("opening %s: %v", dir, err)
	}
	defer s.Close()
	return render(contentsOf(t, s))
}

func mustBackup(t testing.TB, s *Store, dir string) {
	t.Helper()
	if err := BackUp(s, dir); err != nil {
		t.Fatalf("Backup: %v", err)
	}
}

// modelOf returns the content of a store with these records.
func (v *patientVictim) modelOf(list []original) map[string]string {
	content := map[string]string{}
	for _, o := range list {
		switch {
		case o.Kind != record.Value:
		case o.Op == record.Set:
			content[o.key] = fmt.Sprintf("%d %s", o.Schema, o.value)
		case o.Op == record.Delete:
			delete(content, o.key)
		}
	}
	return content
}

// intact lists the records whose bytes are in an image. names has the new names of segments' files.
func (v *patientVictim) intact(t *testing.T, image vfs.FS, names map[string]string) (list []original) {
	t.Helper()
	files := map[string]string{}
	ring := contentOfFile(t, image, "db/RING")
	lookup := func(name string) string {
		if other, ok := names[name]; ok {
			name = other
		}
		if _, ok := files[name]; !ok {
			files[name] = contentOfFile(t, image, "db/"+name)
		}
		return files[name]
	}
	schemas := map[string]bool{}
	saltless := v.saltless(t, image, lookup)
	for _, o := range v.originals {
		if saltless[o.id] {
			continue
		}
		text := lookup(o.id.FileName())
		there := int64(len(text)) >= o.at+int64(len(o.bytes)) && text[o.at:o.at+int64(len(o.bytes))] == o.bytes
		if !there && v.ring > 0 && !strings.HasPrefix(ring, "\x00missing") {
			there = true
			for i := range int64(len(o.bytes)) {
				if at := seglog.RingHead + (o.at+i)%v.ring; at >= int64(len(ring)) || ring[at] != o.bytes[i] {
					there = false
					break
				}
			}
		}
		if !there {
			continue
		}
		switch {
		case o.Kind == record.Schema:
			schemas[o.key] = true
		case o.Schema != 0 && !schemas[record.Hex(o.Schema)]:
			o.Schema = 0
		}
		list = append(list, o)
	}
	return list
}

func repairImage(image vfs.FS) (repair.Report, error) {
	seed := uint64(1000)
	random := func() uint64 { seed++; return seed * 0x9e3779b97f4a7c15 }
	return repair.Repair(context.Background(), "db", "mended", repair.Options{FS: image, Random: random, SegmentBytes: 700})
}

// check repairs an image and holds the result against the records that are intact there.
func (v *patientVictim) check(t *testing.T, image *vfs.Mem, names map[string]string, what string) repair.Report {
	t.Helper()
	want := v.intact(t, image, names)
	before := contentOfDir(t, image, "db")
	report, err := repairImage(image)
	if err != nil {
		t.Fatalf("%s: Repair: %v", what, err)
	}
	if after := contentOfDir(t, image, "db"); !equalDirs(before, after) {
		t.Fatalf("%s: the source has changed", what)
	}
	v.compare(t, image, want, what)
	if int(report.Saved) != len(want) {
		t.Fatalf("%s: %d records reported, %d are intact", what, report.Saved, len(want))
	}
	wantSameCount(t, image, &report, what)
	if len(report.Lost) == 0 && !v.isPrefix(t, want) {
		t.Fatalf("%s: %d records are lost, and nothing is reported", what, len(v.originals)-len(want))
	}
	return report
}

// wantSameCount compares the results of Check and Repair for a store.
func wantSameCount(t *testing.T, image *vfs.Mem, report *repair.Report, what string) {
	t.Helper()
	found, err := Check(context.Background(), "db", image, nil)
	if err != nil {
		t.Fatalf("%s: Check: %v", what, err)
	}
	m, err := seglog.ReadManifest(image, "db")
	headless := func(p seglog.CorruptError) bool { return strings.Contains(p.Reason, "its first line") }
	if err != nil || m == nil || found.TornBytes > 0 || m.Writing != nil && len(found.Problems) > 0 || slices.ContainsFunc(found.Problems, headless) {
		return // without a manifest or a first line, or in a ring after damage, Repair finds records that no index or manifest leads to
	}
	if found.Records != report.Intact {
		t.Errorf("%s: Check counts %d records, Repair %d intact ones\n%+v\n%+v", what, found.Records, report.Intact, found, report)
	}
	for _, l := range report.Lost {
		if l.Torn || l.Bytes == 0 {
			continue
		}
		told := slices.ContainsFunc(found.Problems, func(p seglog.CorruptError) bool {
			return p.File == l.File && p.Offset == l.Offset && strings.Contains(p.Reason, fmt.Sprintf(" %d bytes", l.Bytes))
		})
		if !told {
			t.Errorf("%s: Repair says %+v, and Check %+v", what, l, found.Problems)
		}
	}
}

// isPrefix reports whether only records are missing that were the last, and in the ring alone: nothing says
// that they were there.
func (v *patientVictim) isPrefix(t *testing.T, want []original) bool {
	t.Helper()
	for i, o := range v.originals {
		switch {
		case i < len(want) && want[i].Seq != o.Seq:
			return false
		case i >= len(want) && logtest.SizeOf(t, v.mem, filepath.Join("db", o.id.FileName())) > o.at:
			return false
		}
	}
	return true
}

func equalDirs(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if other, ok := b[name]; !ok || other != text {
			return false
		}
	}
	return true
}

// compare compares the repaired store with its expected content.
func (v *patientVictim) compare(t *testing.T, image *vfs.Mem, want []original, what string) {
	t.Helper()
	got := readOriginals(t, image, "mended")
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d\n%s", what, len(got), len(want), difference(got, want))
	}
	for i := range got {
		g, w := &got[i], &want[i]
		if g.Op != w.Op || g.Kind != w.Kind || g.Seq != w.Seq || g.Schema != w.Schema || g.key != w.key || g.value != w.value || g.Expiry != w.Expiry {
			t.Fatalf("%s: record %d is %v, want %v", what, i, g, w)
		}
	}
	found, err := Check(context.Background(), "mended", image, nil)
	if err != nil || len(found.Problems) > 0 {
		t.Fatalf("%s: Check of the repaired store: %v %v", what, err, found.Problems)
	}
	s, err := Open("mended", testOptions(image))
	if err != nil {
		t.Fatalf("%s: opening the repaired store: %v", what, err)
	}
	defer s.Close()
	if got, want := render(contentsOf(t, s)), render(v.modelOf(want)); got != want {
		t.Fatalf("%s: the repaired store holds\n\t%s, want\n\t%s", what, got, want)
	}
	mustSet(t, s, "afterwards", "1")
	wantValue(t, s, "afterwards", "1")
}

func difference(got, want []original) string {
	var b strings.Builder
	have := map[string]bool{}
	for i := range got {
		have[got[i].String()] = true
	}
	for i := range want {
		if !have[want[i].String()] {
			fmt.Fprintf(&b, "missing %v in %v at %d\n", &want[i], want[i].id, want[i].at)
		}
		delete(have, want[i].String())
	}
	for s := range have {
		fmt.Fprintf(&b, "too many %s\n", s)
	}
	return b.String()
}

// eachPatient runs a test on stores that were closed and whose process died, with the manifest and without.
func eachPatient(t *testing.T, test func(t *testing.T, v *patientVictim, image func() *vfs.Mem)) {
	for _, end := range []ending{closed, killed} {
		for _, manifest := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, manifest %v", end, manifest), func(t *testing.T) {
				v := newPatient(t, end)
				test(t, v, func() *vfs.Mem {
					image := v.mem.ProcessCrash()
					if !manifest {
						if err := image.Remove("db/MANIFEST"); err != nil {
							t.Fatal(err)
						}
					}
					return image
				})
			})
		}
	}
}

func TestRepairOfWhatIsWhole(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		mem := image()
		report := v.check(t, mem, nil, "undamaged")
		if len(v.originals) < 60 || contentOfFile(t, mem, "db/00000003.log") == "\x00missing" {
			t.Fatalf("a store of %d records is too small for this test", len(v.originals))
		}
		for _, l := range report.Lost {
			if !strings.HasSuffix(l.File, seglog.ManifestName) {
				t.Errorf("nothing is lost, and reported is %+v", l)
			}
		}
	})
}

// repairStride is how far the places of damage are apart, on average.
func repairStride(usual int64) int64 {
	if longTest() {
		return 1
	}
	return usual
}

// TestRepairAfterFlips changes one bit, at every byte of every file.
func TestRepairAfterFlips(t *testing.T) {
	stride := repairStride(113)
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		n := 0
		for _, name := range logtest.Files(t, image()) {
			path := filepath.Join("db", name)
			size := logtest.SizeOf(t, image(), path)
			for at := v.rng.Int64N(stride); at < size; at += 1 + v.rng.Int64N(2*stride) {
				if name == seglog.RingName && at > 100 && at < seglog.RingHead {
					at = seglog.RingHead // padding
				}
				mem := image()
				bit := v.rng.IntN(8)
				logtest.Change(t, mem, path, func(f vfs.File) error { return logtest.Flip(f, at, bit) })
				v.check(t, mem, nil, fmt.Sprintf("bit %d of byte %d of %s flipped", bit, at, name))
				n++
			}
		}
		t.Logf("%d flips", n)
	})
}

// TestRepairAfterTruncation cuts every file at every length.
func TestRepairAfterTruncation(t *testing.T) {
	stride := repairStride(449)
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		for _, name := range logtest.Files(t, image()) {
			path := filepath.Join("db", name)
			for size := logtest.SizeOf(t, image(), path) - 1; size >= 0; size -= 1 + v.rng.Int64N(stride) {
				mem := image()
				logtest.Change(t, mem, path, func(f vfs.File) error { return f.Truncate(size) })
				v.check(t, mem, nil, fmt.Sprintf("%s cut at %d", name, size))
			}
		}
	})
}

// TestRepairAfterOverwriting puts zeros and garbage into the files, a sector, a page or any length.
func TestRepairAfterOverwriting(t *testing.T) {
	rounds := 5000 / int(repairStride(50))
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		names := logtest.Files(t, image())
		for range rounds {
			mem := image()
			what := ""
			for range 1 + v.rng.IntN(3) {
				path := filepath.Join("db", names[v.rng.IntN(len(names))])
				size := logtest.SizeOf(t, mem, path)
				at := v.rng.Int64N(size)
				n := []int64{1, 8, 64, 512, 4096, v.rng.Int64N(300)}[v.rng.IntN(6)]
				if n >= 64 {
					at -= at % n
				}
				n = min(n, size-at)
				b := make([]byte, n)
				switch v.rng.IntN(3) {
				case 0:
				case 1:
					for i := range b {
						b[i] = byte(v.rng.Uint32())
					}
				case 2: // text that looks like records, with lengths that reach beyond everything
					copy(b, strings.Repeat("1f0c9a3e Sv 0 0 1 0 1 ff k v\n", int(n/20+1)))
				}
				logtest.Change(t, mem, path, func(f vfs.File) error { _, err := f.WriteAt(b, at); return err })
				what += fmt.Sprintf("%d bytes at %d of %s overwritten with %.10q; ", n, at, path, b)
			}
			v.check(t, mem, nil, what)
		}
	})
}

// saltless are the segments of which neither the manifest nor the first line has the salt, nor two
// records in the file: then the rest cannot be read.
func (v *patientVictim) saltless(t *testing.T, image vfs.FS, lookup func(string) string) map[record.SegmentID]bool {
	t.Helper()
	list := map[record.SegmentID]bool{}
	if m, err := seglog.ReadManifest(image, "db"); err == nil && m != nil {
		return list
	}
	left := map[record.SegmentID]int{}
	for _, o := range v.originals {
		text := lookup(o.id.FileName())
		if int64(len(text)) >= o.at+int64(len(o.bytes)) && text[o.at:o.at+int64(len(o.bytes))] == o.bytes {
			left[o.id]++
		}
	}
	for _, o := range v.originals {
		text := lookup(o.id.FileName())
		h, _, err := record.ParseSegmentHeader([]byte(text[:min(len(text), record.MaxHeaderBytes)]))
		list[o.id] = left[o.id] < 2 && (err != nil || h.ID != o.id)
	}
	return list
}

// TestRepairWithForgedLengths changes the lengths that records state.
func TestRepairWithForgedLengths(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		for i, o := range v.originals {
			if int64(i)%repairStride(8) != 0 {
				continue
			}
			_, head, _ := record.Parse([]byte(o.bytes))
			words := strings.Split(o.bytes[:head-1], " ")
			for _, length := range []string{"0", "f", "ff", "fff", "ffffff"} {
				for field := len(words) - 2; field < len(words); field++ {
					if len(words[field]) < len(length) {
						continue
					}
					forged := slices.Clone(words)
					forged[field] = strings.Repeat("f", len(words[field])-len(length)) + length
					text := strings.Join(forged, " ")
					mem := image()
					path := filepath.Join("db", o.id.FileName())
					if logtest.SizeOf(t, mem, path) < o.at+int64(len(text)) {
						continue // it is in the ring
					}
					logtest.Change(t, mem, path, func(f vfs.File) error { _, err := f.WriteAt([]byte(text), o.at); return err })
					v.check(t, mem, nil, fmt.Sprintf("%q for %q at %d of %s", text, o.bytes[:head-1], o.at, path))
				}
			}
		}
	})
}

// TestRepairWithoutFiles removes each file, and each two.
func TestRepairWithoutFiles(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		names := logtest.Files(t, image())
		for _, a := range names {
			for _, b := range names {
				mem := image()
				mem.Remove("db/" + a)
				mem.Remove("db/" + b)
				if !slices.ContainsFunc(logtest.Files(t, mem), func(name string) bool { return strings.HasSuffix(name, ".log") || name == seglog.ManifestName }) {
					continue
				}
				v.check(t, mem, nil, fmt.Sprintf("without %s and %s", a, b))
			}
		}
	})
}

// TestRepairOfMixedUpFiles swaps the names of segments, and puts copies in the places of others.
func TestRepairOfMixedUpFiles(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		var logs []string
		for _, name := range logtest.Files(t, image()) {
			if strings.HasSuffix(name, ".log") {
				logs = append(logs, name)
			}
		}
		for i, a := range logs {
			for _, b := range logs[i+1:] {
				for _, damage := range []bool{false, true} {
					mem := image()
					for _, move := range [][2]string{{a, "x"}, {b, a}, {"x", b}} {
						if err := mem.Rename("db/"+move[0], "db/"+move[1]); err != nil {
							t.Fatal(err)
						}
					}
					names := map[string]string{a: b, b: a}
					if damage { // in the first line of one of them, too
						logtest.Change(t, mem, "db/"+a, func(f vfs.File) error { return logtest.Flip(f, 20, 1) })
						if contentOfFile(t, mem, "db/MANIFEST") == "\x00missing" {
							continue // nothing says any more which one it was
						}
					}
					v.check(t, mem, names, fmt.Sprintf("%s and %s swapped", a, b))
				}
				mem := image()
				text := contentOfFile(t, mem, "db/"+a)
				if err := mem.Remove("db/" + b); err != nil {
					t.Fatal(err)
				}
				f, err := mem.Open("db/"+b, vfs.Create)
				if err == nil {
					_, err = f.WriteAt([]byte(text), 0)
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
				// Each of the two has records that the other lacks.
				logtest.Change(t, mem, "db/"+a, func(f vfs.File) error { return f.Truncate(int64(len(text) / 2)) })
				logtest.Change(t, mem, "db/"+b, func(f vfs.File) error { _, err := f.WriteAt(make([]byte, 40), 150); return err })
				want := v.intact(t, mem, nil)
				for _, o := range v.intact(t, mem, map[string]string{a: b}) {
					if !slices.ContainsFunc(want, func(w original) bool { return w.Seq == o.Seq }) {
						want = append(want, o)
					}
				}
				slices.SortFunc(want, func(x, y original) int { return int(x.Seq) - int(y.Seq) })
				if _, err := repairImage(mem); err != nil {
					t.Fatal(err)
				}
				v.compare(t, mem, want, fmt.Sprintf("a copy of %s in the place of %s", a, b))
			}
		}
	})
}

// TestRepairOfForeignFiles has a segment of another store in the place of one.
func TestRepairOfForeignFiles(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		mem := image()
		other := record.SegmentHeader{ID: record.NewSegmentID(2, 0), Salt: 77, Store: 99}
		text := other.Append(nil)
		text = other.Salt.Append(text, int64(len(text)), &record.Head{Op: record.Set, Kind: record.Value, Seq: 5}, []byte("foreign"), nil)
		if err := mem.Remove("db/00000002.log"); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Open("db/00000002.log", vfs.Create)
		if err == nil {
			_, err = f.WriteAt(text, 0)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		report := v.check(t, mem, nil, "a foreign segment")
		if !slices.ContainsFunc(report.Lost, func(l repair.Loss) bool { return strings.Contains(l.Reason, "belongs to store") }) {
			t.Errorf("the report does not tell of it: %+v", report.Lost)
		}
	})
}

// TestRepairReportsRanges: losses are reported by file and place, to the byte.
func TestRepairReportsRanges(t *testing.T) {
	v := newPatient(t, closed)
	for i := 1; i+2 < len(v.originals); i++ {
		a, b := v.originals[i], v.originals[i+1]
		if a.id != b.id || v.originals[i+2].id != a.id {
			continue
		}
		mem := v.mem.ProcessCrash()
		path := filepath.Join("db", a.id.FileName())
		logtest.Change(t, mem, path, func(f vfs.File) error {
			_, err := f.WriteAt(make([]byte, 12), b.at-6)
			return err
		})
		report := v.check(t, mem, nil, "two records damaged")
		want := repair.Loss{File: path, Offset: a.at, Bytes: int64(len(a.bytes) + len(b.bytes)), Reason: record.ErrChecksum.Error()}
		if len(report.Lost) != 1 || report.Lost[0] != want {
			t.Fatalf("reported is %+v, want %+v", report.Lost, want)
		}
	}
}

// TestRepairOfGroups: members of a committed group are kept without it, those whose commit or another member is
// lost are not.
func TestRepairOfGroups(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	group := func(key string) {
		var list []*seglog.Pending
		for i := range 2 {
			list = append(list, &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: fmt.Appendf(nil, "%s%d", key, i), Value: []byte("member")})
		}
		g := &seglog.Group{Log: s.log}
		defer g.End()
		if _, err := g.Commit(list...); err != nil {
			t.Fatal(err)
		}
		s.log.Shown.Add(1)
	}
	group("a")
	group("b")
	mustSet(t, s, "end", "1")
	mustClose(t, s)
	all := readOriginals(t, mem, "db")
	image := mem.ProcessCrash()
	report, err := repairImage(image)
	if err != nil {
		t.Fatal(err)
	}
	mended, err := Open("mended", testOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a0", "a1", "b0", "b1"} {
		wantValue(t, mended, key, "member")
	}
	mustClose(t, mended)
	wantSameCount(t, image, &report, "a store with groups")
	if report.Saved != 7 || report.Grouped != 0 {
		t.Errorf("the report is %+v", report)
	}

	image = mem.ProcessCrash() // now without the second commit, and a member of the first
	for _, o := range []original{all[5], all[0]} {
		logtest.Change(t, image, filepath.Join("db", o.id.FileName()), func(f vfs.File) error { return logtest.Flip(f, o.at+3, 1) })
	}
	if report, err = repairImage(image); err != nil {
		t.Fatal(err)
	}
	if mended, err = Open("mended", testOptions(image)); err != nil {
		t.Fatal(err)
	}
	defer mended.Close()
	wantValue(t, mended, "a0", absent)
	wantValue(t, mended, "a1", absent)
	wantValue(t, mended, "b0", absent)
	wantValue(t, mended, "b1", absent)
	wantValue(t, mended, "end", "1")
	if report.Grouped != 4 {
		t.Errorf("%d records of groups that are not whole reported, want 4", report.Grouped)
	}
}

// TestRepairOfLargeValues: a value whose parts are all there is kept, one that lacks a part is reported.
func TestRepairOfLargeValues(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2 << 20 })
	value := func(seed byte) string {
		return string(bytes.Repeat([]byte{seed, 'x', '\n', seed + 1}, seglog.PartBytes*5/8)) // two and a half parts
	}
	for i := range byte(4) {
		mustSet(t, s, fmt.Sprintf("large %d", i), value(i))
		mustSet(t, s, fmt.Sprintf("small %d", i), "s")
	}
	mustClose(t, s)
	all := readOriginals(t, mem, "db")
	image := mem.ProcessCrash()
	var parts []original
	for _, o := range all {
		if o.Op == record.Part && o.key == "large 2" {
			parts = append(parts, o)
		}
	}
	logtest.Change(t, image, filepath.Join("db", parts[1].id.FileName()), func(f vfs.File) error { return logtest.Flip(f, parts[1].at+500_000, 1) })
	report, err := repairImage(image)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Values) != 1 || string(report.Values[0].Key) != "large 2" || report.Values[0].Bytes != int64(len(value(2))) {
		t.Errorf("reported lost are %+v", report.Values)
	}
	if int(report.Saved) != len(all)-2 {
		t.Errorf("%d records, want %d", report.Saved, len(all)-2)
	}
	found, err := Check(context.Background(), "mended", image, nil)
	if err != nil || len(found.Problems) > 0 {
		t.Fatalf("Check: %v %v", err, found.Problems)
	}
	mended, err := Open("mended", testOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	defer mended.Close()
	for i := range byte(4) {
		want := value(i)
		if i == 2 {
			want = absent
		}
		wantValue(t, mended, fmt.Sprintf("large %d", i), want)
		wantValue(t, mended, fmt.Sprintf("small %d", i), "s")
	}
}

// TestRepairOfUnreadableBlocks: where the disk fails to read, the rest is salvaged.
func TestRepairOfUnreadableBlocks(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 1000 {
		mustSet(t, s, fmt.Sprintf("key %d", i), strings.Repeat("v", 50))
	}
	mustClose(t, s)
	bad := &badBlock{FS: mem, from: 20_000, to: 20_100}
	report, err := repairImage(bad)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(context.Background(), "mended", mem, nil)
	if err != nil || len(found.Problems) > 0 {
		t.Fatalf("Check: %v %v", err, found.Problems)
	}
	lost := 0
	for _, o := range readOriginals(t, mem, "db") {
		block := func(at int64) int64 { return at / repair.PatientBlock }
		if block(o.at) <= block(bad.to) && block(o.at+int64(len(o.bytes))-1) >= block(bad.from) {
			lost++
		}
	}
	if int(report.Saved) != 1000-lost || lost == 0 || lost > 120 || len(report.Lost) != 1 {
		t.Errorf("%d records, %d lie in the block; lost: %+v", report.Saved, lost, report.Lost)
	}
}

// badBlock fails reads of some bytes of the segments in db.
type badBlock struct {
	vfs.FS
	from, to int64
}

func (b *badBlock) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := b.FS.Open(name, mode)
	if err == nil && strings.HasPrefix(name, "db") && strings.HasSuffix(name, ".log") {
		f = &badFile{f, b}
	}
	return f, err
}

type badFile struct {
	vfs.File
	of *badBlock
}

func (f *badFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.of.to && off+int64(len(p)) > f.of.from {
		return 0, errors.New("a bad block")
	}
	return f.File.ReadAt(p, off)
}

// TestRepairIntoWhatIsThere refuses directories that hold something, or lie within the source.
func TestRepairIntoWhatIsThere(t *testing.T) {
	v := newPatient(t, closed)
	if _, err := repair.Repair(t.Context(), "db", "db", repair.Options{FS: v.mem}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into itself: %v", err)
	}
	if _, err := repair.Repair(t.Context(), "db", "db/within", repair.Options{FS: v.mem}); err == nil {
		t.Error("into a directory within the source")
	}
	if _, err := repair.Repair(t.Context(), "nowhere", "into", repair.Options{FS: v.mem}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repair.Repair(cancelled, "db", "cancelled", repair.Options{FS: v.mem}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if names, err := v.mem.List("cancelled"); err != nil || len(names) > 1 {
		t.Errorf("a cancelled repair leaves %q, %v", names, err)
	}
}

// TestRepairDryRun: a dry run reports the same as Repair, and writes nothing.
func TestRepairDryRun(t *testing.T) {
	eachPatient(t, func(t *testing.T, v *patientVictim, image func() *vfs.Mem) {
		mem := image()
		logtest.Change(t, mem, "db/00000002.log", func(f vfs.File) error { return errors.Join(logtest.Flip(f, 200, 1), logtest.Flip(f, 400, 1)) })
		before := contentOfDir(t, mem, "db")
		dry, err := repair.Repair(t.Context(), "db", "", repair.Options{FS: mem, DryRun: true})
		if err != nil || len(dry.Lost) == 0 || dry.Saved == 0 {
			t.Fatalf("%+v, %v", dry, err)
		}
		if after := contentOfDir(t, mem, "db"); !equalDirs(before, after) {
			t.Error("a dry run changes files")
		}
		wet, err := repair.Repair(t.Context(), "db", "mended", repair.Options{FS: mem})
		if err != nil || !reflect.DeepEqual(dry, wet) {
			t.Errorf("a dry run reports\n%+v, and a repair\n%+v, %v", dry, wet, err)
		}
	})
}

// TestRepairBesideAWriter: a store that is being written to is not repaired.
func TestRepairBesideAWriter(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "a", "1")
	for _, dry := range []bool{false, true} {
		if _, err := repair.Repair(t.Context(), "db", "into", repair.Options{FS: mem, DryRun: dry}); !errors.Is(err, seglog.ErrLocked) {
			t.Errorf("dry %v: %v", dry, err)
		}
	}
	if names, err := mem.List("into"); err == nil {
		t.Errorf("there is %q", names)
	}
	mustClose(t, s)
	if _, err := repair.Repair(t.Context(), "db", "into", repair.Options{FS: mem}); err != nil {
		t.Error(err)
	}
	mustClose(t, mustOpen(t, mem)) // the lock is given back
}

// TestRepairAfterAFailedRepair: files of a failed attempt, or of a new file system, do not prevent a repair.
func TestRepairAfterAFailedRepair(t *testing.T) {
	v := newPatient(t, closed)
	if err := v.mem.MkdirAll("into"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{seglog.ManifestTemp, "lost+found", "other"} {
		f, err := v.mem.Open("into/"+name, vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	opts := repair.Options{FS: v.mem}
	if _, err := repair.Repair(t.Context(), "db", "into", opts); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "other") {
		t.Errorf("beside another file: %v", err)
	}
	if err := v.mem.Remove("into/other"); err != nil {
		t.Fatal(err)
	}
	if _, err := repair.Repair(t.Context(), "db", "into", opts); err != nil {
		t.Fatal(err)
	}
	content := func(dir string) string {
		s, err := Open(dir, testOptions(v.mem))
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, s)
		found, _, _ := contentOf(s) // the schemas are not those of the crash model
		return found
	}
	if found, want := content("into"), content("db"); found != want || len(want) < 100 {
		t.Errorf("repaired: %s, want %s", found, want)
	}
}

// TestRepairCrashes: whenever a repair dies or the power goes, its target is the complete store or none with
// any content, and the source is unchanged.
func TestRepairCrashes(t *testing.T) {
	v := newPatient(t, killed)
	mem := v.mem.ProcessCrash()
	mem.Record()
	before := contentOfDir(t, mem, "db")
	want := render(v.modelOf(v.originals))
	states, complete := 0, 0
	look := func(image *vfs.Mem, where string) {
		states++
		if !equalDirs(before, contentOfDir(t, image, "db")) {
			t.Fatalf("%s: the source has changed", where)
		}
		holds := v.holdsAfterwards(t, image, where)
		if holds == want {
			complete++
		} else if holds != "" {
			t.Fatalf("%s: half a store:\n%s", where, holds)
		}
		if v.rng.IntN(8) > 0 || holds == want {
			return
		}
		if _, err := repairImage(image); err != nil {
			t.Fatalf("%s: the same repair again: %v", where, err)
		}
		if holds := v.holdsAfterwards(t, image, where); holds != want {
			t.Fatalf("%s: the same repair again makes\n%s", where, holds)
		}
	}
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if phase == vfs.Before {
			return
		}
		where := fmt.Sprintf("%v, phase %v", op, phase)
		look(mem.ProcessCrash(), "death at "+where)
		for image := range mem.PowerCuts(12, v.rng) {
			look(image, "power cut at "+where)
		}
	})
	if _, err := repairImage(mem); err != nil {
		t.Fatal(err)
	}
	if complete == 0 || complete == states {
		t.Errorf("%d of %d states are complete", complete, states)
	}
	for image := range mem.PowerCuts(1, nil) {
		if v.holdsAfterwards(t, image, "in the end") != want {
			t.Error("what was repaired is not durable")
		}
	}
}

// holdsAfterwards returns the content of a repair's target, "" for none.
func (v *patientVictim) holdsAfterwards(t *testing.T, image *vfs.Mem, where string) string {
	t.Helper()
	s, err := Open("mended", testOptions(image, func(o *Options) { o.ReadOnly = true }))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, seglog.ErrUnfinished) {
		return ""
	}
	if err != nil {
		t.Fatalf("%s: opening the target: %v", where, err)
	}
	defer s.Close()
	return render(contentsOf(t, s))
}

// TestRepairFaults fails every operation, once and for ever: a repair that returns nil has succeeded, and no
// other leaves any files. The source stays unchanged.
func TestRepairFaults(t *testing.T) {
	v := newPatient(t, killed)
	want := render(v.modelOf(v.originals))
	for _, forever := range []bool{false, true} {
		for n := 1; ; n++ {
			mem := v.mem.ProcessCrash()
			fault := &vfs.Fault{N: n, Forever: forever, Err: vfs.ErrNoSpace}
			faulty := vfs.Inject(mem, fault)
			_, err := repairImage(faulty)
			where := fmt.Sprintf("fault %d, for ever %v", n, forever)
			if !equalDirs(contentOfDir(t, v.mem, "db"), contentOfDir(t, mem, "db")) {
				t.Fatalf("%s: the source has changed", where)
			}
			if !faulty.Fired() {
				if err != nil || n < 10 {
					t.Fatalf("%s: %v", where, err)
				}
				break
			}
			holds := v.holdsAfterwards(t, mem, where)
			switch {
			case err == nil && holds != want:
				t.Fatalf("%s: success, and it holds\n%s", where, holds)
			case err != nil && !errors.Is(err, seglog.ErrNoSpace):
				t.Fatalf("%s: %v", where, err)
			case err != nil && holds != "" && !(forever && holds == want):
				t.Fatalf("%s: %v, and it holds\n%s", where, err, holds)
			}
		}
	}
}

// TestRepairOfWhatRecoveryLeftOut: without the manifest, records beyond a hole that a power cut left do not come back
// before those that took their numbers.
func TestRepairOfWhatRecoveryLeftOut(t *testing.T) {
	t.Setenv("COPAL_NO_MMAP", "1")
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 20 {
		mustSet(t, s, fmt.Sprintf("old %d", i), "1")
	}
	image := mem.ProcessCrash()
	image.SetCacheID("another")
	if err := image.Remove("db/SYNCED"); err != nil {
		t.Fatal(err)
	}
	originals := readOriginals(t, image, "db")
	logtest.Change(t, image, "db/00000001.log", func(f vfs.File) error { return logtest.Flip(f, originals[9].at, 1) })
	before := contentOfFile(t, image, "db/00000001.log")
	s = mustOpen(t, image)
	mustSet(t, s, "new", "2")
	want := render(contentsOf(t, s))
	mustClose(t, s)
	logtest.Change(t, image, "db/00000001.log", func(f vfs.File) error { _, err := f.WriteAt([]byte(before), 0); return err }) // as if it had not been cut off
	if err := image.Remove("db/MANIFEST"); err != nil {
		t.Fatal(err)
	}
	if _, err := repairImage(image); err != nil {
		t.Fatal(err)
	}
	mended, err := Open("mended", testOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	defer mended.Close()
	if got := render(contentsOf(t, mended)); got != want || !strings.Contains(got, "new") || strings.Contains(got, "old 15") {
		t.Errorf("it holds\n%s, want\n%s", got, want)
	}
}

// TestRepairOfALargeStore damages a store of 64 MiB here and there.
func TestRepairOfALargeStore(t *testing.T) {
	if !longTest() {
		t.Skip("COPAL_LONG=1")
	}
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "db"), WithRooms(Options{SegmentBytes: 8 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 100)
	for i := 0; s.Stats().LogBytes < 64<<20; i++ {
		mustSet(t, s, fmt.Sprintf("key %d", i%400_000), fmt.Sprint(value, i))
	}
	mustClose(t, s)
	fsys := vfs.OS()
	originals := readOriginals(t, fsys, filepath.Join(dir, "db"))
	rng := rand.New(rand.NewPCG(1, 1))
	hit := map[record.SegmentID][][2]int64{}
	for range 100 {
		o := originals[rng.IntN(len(originals))]
		n := int64(1 + rng.IntN(4096))
		f, err := fsys.Open(filepath.Join(dir, "db", o.id.FileName()), vfs.ReadWrite)
		if err == nil {
			_, err = f.WriteAt(bytes.Repeat([]byte{0}, int(n)), o.at+1)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		hit[o.id] = append(hit[o.id], [2]int64{o.at + 1, o.at + 1 + n})
	}
	want := 0
	content := map[string]string{}
	for _, o := range originals {
		if slices.ContainsFunc(hit[o.id], func(h [2]int64) bool { return o.at < h[1] && o.at+int64(len(o.bytes)) > h[0] }) {
			continue
		}
		want++
		content[o.key] = o.value
	}
	start := clock.System{}.Now()
	report, err := repair.Repair(t.Context(), filepath.Join(dir, "db"), filepath.Join(dir, "mended"), repair.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d records, %d ranges lost, in %v", report.Saved, len(originals), len(report.Lost), clock.System{}.Now().Sub(start))
	if int(report.Saved) != want {
		t.Errorf("%d records, %d are intact", report.Saved, want)
	}
	found, err := Check(context.Background(), filepath.Join(dir, "mended"), fsys, nil)
	if err != nil || len(found.Problems) > 0 {
		t.Fatalf("Check: %v %v", err, found.Problems)
	}
	mended, err := Open(filepath.Join(dir, "mended"), WithRooms(Options{ReadOnly: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer mended.Close()
	n := 0
	for item := range mended.Items(mended.Tables()[0]) {
		if item.Err != nil || content[string(item.Key)] != string(item.Value) {
			t.Fatalf("%q: %q, %v; want %q", item.Key, item.Value, item.Err, content[string(item.Key)])
		}
		n++
	}
	if n != len(content) {
		t.Errorf("%d keys, want %d", n, len(content))
	}
}

// A missing or unusable ring of a killed process is a loss of unknown size. The one of a store that was closed
// holds nothing.
func TestRepairWithoutTheRing(t *testing.T) {
	logtest.NeedsRing(t)
	for way, text := range map[string][]byte{"removed": nil, "emptied": {}, "zeroed": make([]byte, seglog.RingHead), "of another store": seglog.Rings.Encode(&tail.RingHeader{Log: 7, ID: 8, Sizes: [2]int64{64 << 10}})} {
		for _, killed := range []bool{true, false} {
			mem := vfs.NewMem()
			s := mustOpen(t, mem)
			mustSet(t, s, "a", "1")
			if !killed {
				mustClose(t, s)
			}
			image := mem.ProcessCrash()
			path := filepath.Join("db", seglog.RingName)
			if err := image.Remove(path); err != nil && killed {
				t.Fatal(err)
			}
			if text != nil {
				f, err := image.Open(path, vfs.Create)
				if err == nil {
					_, err = f.WriteAt(text, 0)
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			report, err := repair.Repair(t.Context(), "db", "new", repair.Options{FS: image})
			if err != nil {
				t.Fatalf("%s, killed %v: %v", way, killed, err)
			}
			told := slices.ContainsFunc(report.Lost, func(l repair.Loss) bool { return l.File == path && strings.Contains(l.Reason, "newest records") })
			if told != killed {
				t.Errorf("%s, killed %v: %+v", way, killed, report.Lost)
			}
		}
	}
}
