package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestBackupBeforeTheFirstWrite: a store without a record has no identity yet. A backup made then,
// by a writer, by the next or by a reader, is brought up to date when there is one.
func TestBackupBeforeTheFirstWrite(t *testing.T) {
	for _, crash := range []bool{false, true} {
		mem := vfs.NewMem()
		s := storetest.Open(t, mem)
		reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
		defer storetest.Close(t, reader)
		mustBackup(t, s, "written")
		mustBackup(t, reader, "read")
		if crash { // when the directories were known to be backups, and had nothing
			for _, dir := range []string{"written", "read"} {
				if err := mem.Remove(filepath.Join(dir, seglog.ManifestName)); err != nil {
					t.Fatal(err)
				}
				if err := (&backup{fsys: mem, dir: dir, oldSum: noManifest}).note(noManifest); err != nil {
					t.Fatal(err)
				}
			}
		}
		storetest.Close(t, s)
		s = storetest.Open(t, mem)
		mustBackup(t, s, "written")
		for _, value := range []string{"1", "2"} {
			storetest.Set(t, s, "key", value)
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			mustBackup(t, s, "written")
			mustBackup(t, reader, "read")
			for _, dir := range []string{"written", "read"} {
				storetest.WantSound(t, mem, dir)
				if got, want := storetest.ContentIn(t, mem, dir), storetest.ContentIn(t, mem, "db"); got != want {
					t.Errorf("%s holds %s, want %s", dir, got, want)
				}
			}
		}
		other, err := store.Open("other", storetest.Options(mem))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Make(t.Context(), other, "written", Options{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("the backup of another store over this one: %v", err)
		}
		storetest.Close(t, other)
		storetest.Close(t, s)
	}
}

// TestBackupByAReaderThatIsBehind: a reader backs up all earlier writes, also those that it has not
// seen yet and those in files that compaction has replaced.
func TestBackupByAReaderThatIsBehind(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 500 })
	defer storetest.Close(t, s)
	write := func() {
		storetest.FillFrom(t, s, 0, 60)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write()
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
	defer storetest.Close(t, reader)
	write()
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, s, "last", "1")
	mustBackup(t, reader, "copy")
	storetest.WantSound(t, mem, "copy")
	if got, want := storetest.ContentIn(t, mem, "copy"), storetest.ContentIn(t, mem, "db"); got != want {
		t.Errorf("the copy holds %s, want %s", got, want)
	}
}

func mustBackup(t testing.TB, s *engine.Store, dir string) Report {
	t.Helper()
	report, err := Make(t.Context(), s, dir, Options{})
	if err != nil {
		t.Fatalf("Backup: %v", err)
	}
	return report
}

// recordsIn reads the records of a store that is not open, segment by segment.
func recordsIn(t testing.TB, fsys vfs.FS, dir string) (list []seglog.Record) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, segment := record.ParseFileName(name); !segment {
			continue
		}
		text := logtest.ContentOfFile(t, fsys, filepath.Join(dir, name))
		h, at, err := record.ParseSegmentHeader([]byte(text[:min(len(text), record.MaxHeaderBytes)]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		scan := seglog.Scanner{File: strings.NewReader(text), Salt: h.Salt, Offset: int64(at), End: int64(len(text))}
		for scan.Offset < scan.End {
			_, rec, err := scan.Next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
			list = append(list, rec)
		}
	}
	return list
}

func smallSegments(o *engine.Options) { o.SegmentBytes = 900 }

func TestBackup(t *testing.T) { logtest.BothWays(t, backup1) }

func backup1(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 50)
	before := storetest.Content(t, s)
	report := mustBackup(t, s, "copy")
	if report.Linked == 0 || report.Linked+report.Copied != report.Bytes || report.Seq != s.Log().Last() {
		t.Errorf("the report is %+v", report)
	}
	storetest.FillFrom(t, s, 50, 5)
	storetest.WantSound(t, mem, "copy")
	if got := storetest.ContentIn(t, mem, "copy"); got != before {
		t.Errorf("the backup holds\n%s, want\n%s", got, before)
	}
	// The backup is a store.
	twin := mem.ProcessCrash()
	c, err := store.Open("copy", storetest.Options(twin))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, c, "later", "1")
	storetest.Close(t, c)
	storetest.WantSound(t, twin, "copy")
	storetest.Close(t, s)
}

// TestBackupIsIncremental: files of a backup are not written again, and those that its source no
// longer has are removed.
func TestBackupIsIncremental(t *testing.T) { logtest.BothWays(t, backupIsIncremental) }

func backupIsIncremental(t *testing.T) {
	mem := vfs.NewMem()
	faulty := vfs.Inject(mem)
	s := storetest.Open(t, faulty, smallSegments)
	for round := range 12 {
		storetest.FillFrom(t, s, round*20, 1+round*3)
		had := int64(0)
		if m, err := seglog.ReadManifest(mem, "copy"); err == nil && m != nil {
			for _, e := range m.Segments {
				had += e.Bytes
			}
		}
		ops := len(faulty.Ops())
		report := mustBackup(t, s, "copy")
		written := int64(0)
		for _, op := range faulty.Ops()[ops:] {
			if op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, "copy") && strings.HasSuffix(op.Name, ".log") {
				written += op.Len
			}
		}
		if report.Copied+report.Linked != report.Bytes-had || written != report.Copied {
			t.Fatalf("round %d: the log has %d bytes, the backup had %d; linked %d, copied %d, written %d", round, report.Bytes, had, report.Linked, report.Copied, written)
		}
		if again := mustBackup(t, s, "copy"); again.Copied != 0 || again.Linked != 0 || again.Seq != report.Seq {
			t.Fatalf("round %d: the second backup of the same: %+v", round, again)
		}
		storetest.WantSound(t, mem, "copy")
		if got, want := storetest.ContentIn(t, mem, "copy"), storetest.Content(t, s); got != want {
			t.Fatalf("round %d: the backup holds\n%s, want\n%s", round, got, want)
		}
	}
	// Across a clean end, and one that was not.
	for _, clean := range []bool{true, false} {
		if clean {
			storetest.Close(t, s)
		} else {
			storetest.Set(t, s, "in the ring alone", "1")
			mem = mem.ProcessCrash()
		}
		s = storetest.Open(t, mem, smallSegments)
		mustBackup(t, s, "copy") // before the first write
		if got, want := storetest.ContentIn(t, mem, "copy"), storetest.Content(t, s); got != want {
			t.Fatalf("reopened, clean %v: the backup holds\n%s, want\n%s", clean, got, want)
		}
		storetest.FillFrom(t, s, 500, 10)
		mustBackup(t, s, "copy")
		storetest.WantSound(t, mem, "copy")
		if got, want := storetest.ContentIn(t, mem, "copy"), storetest.Content(t, s); got != want {
			t.Fatalf("clean %v: the backup holds\n%s, want\n%s", clean, got, want)
		}
	}
}

// TestBackupSharesFiles: sealed segments are one file with two names, on a real disk.
func TestBackupSharesFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "db"), engine.Options{SegmentBytes: 900, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.FillFrom(t, s, 0, 50)
	mustBackup(t, s, filepath.Join(dir, "copy"))
	same := 0
	for _, e := range s.Log().Manifest.Segments {
		a, err := os.Stat(filepath.Join(dir, "db", e.ID.FileName()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Stat(filepath.Join(dir, "copy", e.ID.FileName()))
		if errors.Is(err, fs.ErrNotExist) && a.Size() < 128 {
			continue // nothing is in it
		}
		if err != nil {
			t.Fatal(err)
		}
		if tail := e.ID == s.Log().Tail.ID; os.SameFile(a, b) == tail {
			t.Errorf("segment %s, the tail: %v; the same file: %v", e.ID, tail, os.SameFile(a, b))
		}
		same++
	}
	if same < 3 {
		t.Errorf("only %d segments are shared", same)
	}
}

// TestBackupWithoutLinks copies where links are refused.
func TestBackupWithoutLinks(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpLink, N: 1, Forever: true}), smallSegments)
	storetest.FillFrom(t, s, 0, 50)
	if report := mustBackup(t, s, "copy"); report.Linked != 0 || report.Copied != report.Bytes {
		t.Errorf("the report is %+v", report)
	}
	storetest.WantSound(t, mem, "copy")
	other := vfs.NewMem()
	if _, err := Make(t.Context(), s, "elsewhere", Options{FS: other}); err != nil {
		t.Fatal(err)
	}
	if got, want := storetest.ContentIn(t, other, "elsewhere"), storetest.Content(t, s); got != want {
		t.Errorf("on another file system: %s", got)
	}
}

// TestBackupWhileWriting: writes acknowledged before the call are in the backup, and it is one
// point of the log.
func TestBackupWhileWriting(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "db"), engine.Options{SegmentBytes: 1 << 20, SyncInterval: 10e6, NoCompaction: true}) // so that every record must be there
	if err != nil {
		t.Fatal(err)
	}
	const writers = 4
	var mu sync.Mutex // guards acked
	acked := map[string]int{}
	var allowed atomic.Int64 // to each of them
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for n := 1; ; n++ {
				for int64(n) > allowed.Load() {
					select {
					case <-stop:
						return
					default:
						runtime.Gosched()
					}
				}
				key := fmt.Sprint("writer ", w)
				if err := s.Set(nil, []byte(key), fmt.Append(nil, n), 0, engine.Process); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[key] = n
				mu.Unlock()
			}
		})
	}
	defer func() {
		close(stop)
		wait.Wait()
		storetest.Close(t, s)
	}()
	fsys, copied := vfs.OS(), filepath.Join(dir, "copy")
	var reports []Report
	for range 8 {
		allowed.Add(2500)
		for last := s.Log().Last(); s.Log().Last() == last && !t.Failed(); { // the others write, and go on
			runtime.Gosched()
		}
		mu.Lock()
		before := maps.Clone(acked)
		mu.Unlock()
		report := mustBackup(t, s, copied)
		reports = append(reports, report)
		content := map[string]string{}
		list := recordsIn(t, fsys, copied)
		for i, o := range list {
			if o.Seq != uint64(i+1) {
				t.Fatalf("record %d has sequence number %d", i, o.Seq)
			}
			content[string(o.Key)] = string(o.Value)
		}
		if len(list) > 0 && list[len(list)-1].Seq != report.Seq {
			t.Fatalf("the backup ends with record %d, it says %d", list[len(list)-1].Seq, report.Seq)
		}
		for key, n := range before {
			var found int
			if fmt.Sscan(content[key], &found); found < n {
				t.Fatalf("%s: %d was acknowledged before the backup, which has %d", key, n, found)
			}
		}
	}
	storetest.WantSound(t, fsys, copied)
	if first, last := reports[0], reports[len(reports)-1]; first.Seq >= last.Seq {
		t.Errorf("nothing was written between the backups: %+v", reports)
	}
}

// TestBackupOfALogThatGoesOn: writes between the reading of the manifest and of the log's end are
// in the backup, up to the number in the report, also if they have filled segments that the
// manifest did not name yet.
func TestBackupOfALogThatGoesOn(t *testing.T) { logtest.BothWays(t, backupOfALogThatGoesOn) }

func backupOfALogThatGoesOn(t *testing.T) {
	defer func() { seglog.ManifestTaken = func() {} }()
	for _, n := range []int{0, 1, 5, 10, 20, 40, 100} {
		mem := vfs.NewMem()
		s := storetest.Open(t, mem, smallSegments)
		storetest.FillFrom(t, s, 0, 50)
		calls := 0
		seglog.ManifestTaken = func() {
			if calls++; calls == 1 {
				storetest.FillFrom(t, s, 50, n)
			}
		}
		report := mustBackup(t, s, "copy")
		if report.Seq != s.Log().Last() {
			t.Errorf("%d writes meanwhile: it says that it ends with record %d, of %d", n, report.Seq, s.Log().Last())
		}
		storetest.WantSound(t, mem, "copy")
		if got, want := storetest.ContentIn(t, mem, "copy"), storetest.Content(t, s); got != want {
			t.Errorf("%d writes meanwhile: it holds\n%s, want\n%s", n, got, want)
		}
		storetest.Close(t, s)
	}
}

// TestBackupByAReaderThatGoesOn: records that a reader has replayed since it read the manifest are
// in the backup up to the number in the report, also if it has gone on to segments that the
// manifest does not name.
func TestBackupByAReaderThatGoesOn(t *testing.T) {
	defer func() { seglog.ManifestTaken = func() {} }()
	for _, n := range []int{0, 1, 5, 10, 20, 40, 100} {
		mem := vfs.NewMem()
		s := storetest.Open(t, mem, smallSegments)
		storetest.FillFrom(t, s, 0, 50)
		reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
		before := s.Log().Last()
		calls := 0
		seglog.ManifestTaken = func() {
			if calls++; calls > 1 {
				return
			}
			storetest.FillFrom(t, s, 50, n)
			if err := reader.Refresh(); err != nil {
				t.Error(err)
			}
		}
		report := mustBackup(t, reader, "copy")
		storetest.WantSound(t, mem, "copy")
		restored, err := store.Open("copy", storetest.Options(mem, func(o *engine.Options) { o.ReadOnly = true }))
		if err != nil {
			t.Fatal(err)
		}
		if has := restored.Log().Last(); report.Seq != has || has < before {
			t.Errorf("%d writes meanwhile: it says that it ends with record %d, it has %d, and %d were written before", n, report.Seq, has, before)
		}
		for _, open := range []*engine.Store{restored, reader, s} {
			storetest.Close(t, open)
		}
	}
}

// TestBackupHoldsItsLock: from when it has the lock of its directory, which it takes first, until
// it returns, no other process gets it, at any of its operations.
func TestBackupHoldsItsLock(t *testing.T) {
	mem := vfs.NewMem()
	target, held, lost := "copy", 0, 0
	faulty := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.Mutating | vfs.Reading, Match: func(name string) bool {
		if strings.HasPrefix(name, target) {
			lock, err := mem.Lock(filepath.Join(target, seglog.LockName))
			switch locked := (*vfs.LockedError)(nil); {
			case errors.As(err, &locked):
				held++
			case err == nil:
				lock.Close()
				lost += min(held, 1)
			}
		}
		return false
	}})
	wantHeld := func(what string) {
		t.Helper()
		if held < 10 || lost > 0 {
			t.Errorf("%s: at %d operations it had the lock, and at %d not any more", what, held, lost)
		}
		held, lost = 0, 0
	}
	s := storetest.Open(t, faulty, smallSegments)
	for range 3 { // a new one, one that goes on, and one that has all
		storetest.FillFrom(t, s, 0, 20)
		mustBackup(t, s, "copy")
		wantHeld("Backup")
	}
	storetest.Close(t, s)
	target = "restored"
	if _, err := Restore(t.Context(), "copy", target, Options{FS: faulty}); err != nil {
		t.Fatal(err)
	}
	wantHeld("Restore")
}

// TestBackupBesideCompaction: while keys are overwritten in turn and segments compacted, a backup has the
// newest value of each up to one number, and gets smaller with its source.
func TestBackupBesideCompaction(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "db"), engine.Options{SegmentBytes: 30_000, SyncInterval: 10e6})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 50
	var acked atomic.Int64
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Set(nil, fmt.Append(nil, n%keys), fmt.Append(nil, n), 0, engine.Process); err != nil {
				t.Error(err)
				return
			}
			acked.Store(n)
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		wait.Wait()
	})
	defer storetest.Close(t, s)
	defer end()
	fsys, copied := vfs.OS(), filepath.Join(dir, "copy")
	for range 10 {
		before := acked.Load()
		for acked.Load() < before+2000 && !t.Failed() {
			runtime.Gosched()
		}
		before = acked.Load()
		mustBackup(t, s, copied)
		storetest.WantSound(t, fsys, copied)
		c, err := store.Open(copied, engine.Options{ReadOnly: true, Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		found := map[int64]bool{}
		for key, value := range storetest.Entries(t, c) {
			var schema, n int64
			if _, err := fmt.Sscan(value, &schema, &n); err != nil || fmt.Sprint(n%keys) != key {
				t.Fatalf("%q is %q", key, value)
			}
			found[n] = true
			last = max(last, n)
		}
		storetest.Close(t, c)
		for n := last; n > last-keys; n-- {
			if !found[n] {
				t.Fatalf("the backup has number %d and lacks %d", last, n)
			}
		}
		if last < before {
			t.Fatalf("%d was acknowledged before the backup, which ends with %d", before, last)
		}
	}
	end()
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	if r, st := mustBackup(t, s, copied), s.Stats(); st.Compacted == 0 || r.Bytes > 30_000 {
		t.Errorf("%d segments were compacted; the last backup has %d bytes", st.Compacted, r.Bytes)
	}
	storetest.WantSound(t, fsys, copied)
}

// TestBackupCrashes kills the process and cuts the power at every operation of a first backup and of
// one that brings it up to date: the backup is the old one or the new one, and the source has all.
func TestBackupCrashes(t *testing.T) { logtest.BothWays(t, backupCrashes) }

func backupCrashes(t *testing.T) {
	mem := vfs.NewCrashMem()
	rng := rand.New(rand.NewPCG(1, 1))
	s := storetest.Open(t, mem, smallSegments)
	states, old := 0, ""
	for round := range 3 {
		storetest.FillFrom(t, s, round*20, 25)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		now := storetest.Content(t, s)
		seen := map[string]int{}
		look := func(image *vfs.Mem, where string) {
			states++
			holds := storetest.ContentIn(t, image, "copy")
			if holds != old && holds != now {
				t.Fatalf("%s: the backup holds\n%s", where, holds)
			}
			seen[holds]++
			if got := storetest.ContentIn(t, image, "db"); got != now {
				t.Fatalf("%s: the source holds\n%s", where, got)
			}
			if rng.IntN(4) > 0 {
				return
			}
			again := storetest.Open(t, image, smallSegments)
			defer again.Close()
			storetest.Set(t, again, "afterwards", "1")
			mustBackup(t, again, "copy")
			storetest.WantSound(t, image, "copy")
			if got := storetest.ContentIn(t, image, "copy"); got != storetest.Content(t, again) {
				t.Fatalf("%s: the next backup holds\n%s", where, got)
			}
		}
		mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
			if phase == vfs.Before {
				return
			}
			where := fmt.Sprintf("round %d, %v, phase %v", round, op, phase)
			look(mem.ProcessCrash(), "death at "+where)
			for image := range mem.PowerCuts(6, rng) {
				look(image, "power cut at "+where)
			}
		})
		mustBackup(t, s, "copy")
		mem.OnBoundary(nil)
		for image := range mem.PowerCuts(4, rng) {
			if got := storetest.ContentIn(t, image, "copy"); got != now {
				t.Fatalf("round %d: the backup is not durable", round)
			}
		}
		if seen[old] == 0 || seen[now] == 0 {
			t.Errorf("round %d: not all outcomes were seen", round)
		}
		old = now
	}
	t.Logf("%d states", states)
}

// TestBackupFaults fails every operation on the target, once and for ever: the backup that was there stays, or
// the new one is there; the source goes on; and when the disk is well again the next backup succeeds.
func TestBackupFaults(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			s := storetest.Open(t, mem, smallSegments)
			storetest.FillFrom(t, s, 0, 30)
			old := ""
			if n%2 == 0 {
				mustBackup(t, s, "copy")
				old = storetest.Content(t, s)
				storetest.FillFrom(t, s, 30, 20)
			}
			storetest.Close(t, s)
			fault := &vfs.Fault{Kinds: vfs.Mutating | vfs.Reading, N: (n + 1) / 2, Forever: forever, Match: func(name string) bool { return strings.HasPrefix(name, "copy") }}
			faulty := vfs.Inject(mem, fault)
			s = storetest.Open(t, faulty, smallSegments)
			now := storetest.Content(t, s)
			_, err := Make(t.Context(), s, "copy", Options{})
			where := fmt.Sprintf("fault %d, for ever %v, an old one %v: %v", n, forever, old != "", err)
			holds := storetest.ContentIn(t, mem, "copy")
			if holds != now && (holds != old || err == nil) {
				t.Fatalf("%s: the backup holds\n%s", where, holds)
			}
			storetest.Set(t, s, "afterwards", "1")
			storetest.Close(t, s)
			s = storetest.Open(t, mem, smallSegments)
			mustBackup(t, s, "copy")
			storetest.WantSound(t, mem, "copy")
			if got := storetest.ContentIn(t, mem, "copy"); got != storetest.Content(t, s) {
				t.Fatalf("%s: the next backup holds\n%s", where, got)
			}
			names, _ := mem.List("copy")
			for _, name := range names {
				if strings.HasSuffix(name, ".log") && !strings.Contains(logtest.ContentOfFile(t, mem, "copy/MANIFEST"), "sealed "+strings.TrimLeft(strings.TrimSuffix(name, ".log"), "0")+" ") {
					t.Fatalf("%s: %s was left", where, name)
				}
			}
			storetest.Close(t, s)
			if !faulty.Fired() && n%2 == 0 {
				if n < 20 {
					t.Errorf("only %d cases", n)
				}
				break
			}
		}
	}
}

// TestBackupIsRefused where something else is.
func TestBackupIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 30)
	refused := func(dir, why string) {
		t.Helper()
		before := map[string]string{}
		if _, err := mem.List(dir); err == nil {
			before = logtest.ContentOfDir(t, mem, dir)
		}
		_, err := Make(t.Context(), s, dir, Options{})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", dir, err, why)
		}
		if after := logtest.ContentOfDir(t, mem, dir); !maps.Equal(before, after) && dir != "db" {
			t.Errorf("%s was changed", dir)
		}
	}
	refused("db", "the store itself")
	other, err := store.Open("other", storetest.Options(mem))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, other, "x", "1")
	refused("other", "locked")
	storetest.Close(t, other)
	refused("other", "is no backup")

	mustBackup(t, s, "used")
	used, err := store.Open("used", storetest.Options(mem))
	if err != nil {
		t.Fatal(err)
	}
	refused("used", "locked")
	storetest.Set(t, used, "x", "1")
	mustBackup(t, used, "of another way")
	storetest.Close(t, used)
	refused("used", "used as a store")

	storetest.FillFrom(t, s, 30, 30)
	refused("of another way", "differs from the one")

	old := logtest.ContentOfDir(t, mem, "db")
	storetest.FillFrom(t, s, 60, 1)
	mustBackup(t, s, "of later")
	storetest.Close(t, s)
	for name, text := range old { // and the log is as before
		mem.Remove("db/" + name)
		f, err := mem.Open("db/"+name, vfs.Create)
		if err == nil {
			_, err = f.WriteAt([]byte(text), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	s = storetest.Open(t, mem, smallSegments, func(o *engine.Options) { o.AcceptCopy = true })
	refused("of later", "differs from the one")

	if other, err = store.Open("other", storetest.Options(mem)); err != nil {
		t.Fatal(err)
	}
	mustBackup(t, other, "of another")
	storetest.Close(t, other)
	refused("of another", "backup of another store")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(cancelled, s, "cancelled", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	storetest.Close(t, s)
	if _, err := Make(t.Context(), s, "late", Options{}); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

func TestRestore(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 50)
	mustBackup(t, s, "copy")
	want, at := storetest.Content(t, s), seglog.AtSeq(s.Log().Last())
	storetest.Close(t, s)
	before := logtest.ContentOfDir(t, mem, "copy")
	calls := 0
	if _, err := Restore(t.Context(), "copy", "new", Options{FS: mem, Progress: func(done, total int64) { calls++ }}); err != nil {
		t.Fatal(err)
	}
	storetest.WantSound(t, mem, "new")
	if got := storetest.ContentIn(t, mem, "new"); got != want || calls == 0 {
		t.Errorf("it holds\n%s, want\n%s; %d calls of progress", got, want, calls)
	}
	restored, err := store.Open("new", storetest.Options(mem))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, restored, "later", "1")
	storetest.Close(t, restored)
	if !maps.Equal(before, logtest.ContentOfDir(t, mem, "copy")) {
		t.Error("the backup has changed")
	}
	if _, err := Restore(t.Context(), "copy", "new", Options{FS: mem}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into an existing directory: %v", err)
	}
	logtest.Change(t, mem, "copy/00000002.log", func(f vfs.File) error { return logtest.Flip(f, 200, 1) })
	for _, opts := range []Options{{FS: mem}, {FS: mem, At: &at}} {
		if _, err := Restore(t.Context(), "copy", "third", opts); !errors.Is(err, seglog.ErrCorrupt) || strings.Count(err.Error(), "copal:") > 1 {
			t.Errorf("of a damaged backup: %v", err)
		}
	}
}

// TestRestoreCrashes: whatever happens, the target is the whole store or none, and says so. The same restore
// again makes the whole store.
func TestRestoreCrashes(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 20)
	at, then := seglog.AtSeq(s.Log().Last()), storetest.Content(t, s)
	storetest.FillFrom(t, s, 20, 10)
	mustBackup(t, s, "copy")
	now := storetest.Content(t, s)
	storetest.Close(t, s)
	t.Run("whole", func(t *testing.T) { restoreCrashes(t, mem, nil, now, now) })
	t.Run("as of a moment", func(t *testing.T) { restoreCrashes(t, mem, &at, then, now) })
}

func restoreCrashes(t *testing.T, mem *vfs.Mem, at *seglog.Moment, want, of string) {
	holds := func(image vfs.FS) string {
		r, err := store.Open("new", storetest.Options(image, func(o *engine.Options) { o.ReadOnly = true }))
		if err != nil {
			return ""
		}
		defer r.Close()
		return storetest.Content(t, r)
	}
	whole := mem.ProcessCrash()
	whole.Record()
	complete, unfinished := 0, 0
	rng := rand.New(rand.NewPCG(1, 1))
	again := func(image *vfs.Mem, where string) {
		t.Helper()
		if _, err := store.Open("new", storetest.Options(image, func(o *engine.Options) { o.ReadOnly = true })); err != nil {
			if !errors.Is(err, seglog.ErrUnfinished) && !errors.Is(err, fs.ErrNotExist) || errors.Is(err, seglog.ErrCorrupt) || strings.Contains(err.Error(), "repair") {
				t.Fatalf("%s: it is said to be %v", where, err)
			}
			unfinished++
		} else if _, err := image.List("new/" + seglog.UnfinishedName); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: it opens, and says that it is unfinished", where)
		} else {
			return
		}
		if rng.IntN(4) > 0 {
			return
		}
		if _, err := Restore(t.Context(), "copy", "new", Options{FS: image, At: at}); err != nil {
			t.Fatalf("%s: the same restore again: %v", where, err)
		}
		storetest.WantSound(t, image, "new")
		if got := holds(image); got != want {
			t.Fatalf("%s: the same restore again makes\n%s", where, got)
		}
	}
	whole.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		again(whole.ProcessCrash(), fmt.Sprintf("death at %v", op))
		for image := range whole.PowerCuts(10, nil) {
			defer again(image, fmt.Sprintf("power cut at %v", op))
			switch got := holds(image); got {
			case want:
				complete++
			case "":
			default:
				t.Fatalf("power cut at %v: half a store: %s", op, got)
			}
			if storetest.ContentIn(t, image, "copy") != of {
				t.Fatalf("power cut at %v: the backup has changed", op)
			}
		}
	})
	if _, err := Restore(t.Context(), "copy", "new", Options{FS: whole, At: at}); err != nil || complete == 0 || unfinished == 0 {
		t.Fatal(err, complete, unfinished)
	}
	for n := 1; ; n++ {
		image := mem.ProcessCrash()
		faulty := vfs.Inject(image, &vfs.Fault{N: n, Kinds: vfs.Mutating | vfs.Reading})
		_, err := Restore(t.Context(), "copy", "new", Options{FS: faulty, At: at})
		if got := holds(image); err == nil && got != want || got != "" && got != want {
			t.Fatalf("fault %d: %v, and it holds\n%s", n, err, got)
		}
		if err != nil {
			again(image, fmt.Sprintf("fault %d", n))
		}
		if !faulty.Fired() {
			break
		}
	}
}

// A read that fails while a segment is copied is an error of the read, and no damage of the store.
func TestBackupUnderAFaultOfReads(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		armed := false
		ofLog := func(name string) bool { return armed && logtest.IsLog(name) }
		fault := &vfs.Fault{Kinds: vfs.OpRead | vfs.OpLoad, N: 1, Err: syscall.EIO, Match: ofLog}
		s := storetest.Open(t, vfs.Inject(vfs.NewMem(), fault))
		defer storetest.Close(t, s)
		if err := s.Set(nil, []byte("a"), []byte("1"), 0, engine.Power); err != nil {
			t.Fatal(err)
		}
		armed = true
		_, err := Make(t.Context(), s, "backup", Options{})
		if !errors.Is(err, syscall.EIO) || errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("Backup: %v", err)
		}
		if _, err := Make(t.Context(), s, "backup", Options{}); err != nil {
			t.Errorf("the fault has passed, and Backup: %v", err)
		}
	})
}

// TestBackupBesideASpareThatIsMade: a backup copies a segment that the manifest named, and the log
// did not yet list, when it began. The file stays open until it has been copied, though it is
// compacted meanwhile.
func TestBackupBesideASpareThatIsMade(t *testing.T) {
	mem := vfs.NewMem()
	hold := make(chan struct{})
	noting := &vfs.Fault{Kinds: vfs.OpRename, Match: func(name string) bool { return strings.HasSuffix(name, seglog.BackupTemp) }, N: 1, Hold: hold}
	f := vfs.Inject(mem, noting)
	s := storetest.Open(t, f, func(o *engine.Options) { o.SegmentBytes = 1000 }) // so that little is compacted, too
	storetest.Set(t, s, "a", "1")
	l := s.Log()
	begun := false
	progress := func(done, _ int64) {
		if done == 0 || begun {
			return
		}
		begun = true // the first segment is there
		storetest.Set(t, s, "c", "3")
		if err := storetest.Compact(s); err != nil {
			t.Error(err)
		}
	}
	type result struct {
		Report
		error
	}
	ended := make(chan result)
	go func() {
		report, err := Make(t.Context(), s, "copy", Options{Progress: progress})
		ended <- result{report, err}
	}()
	logtest.Until(f.Fired)
	kept, err := l.CreateSpare(l.SyncedSegments()) // by the keeper, which is paused now
	if err != nil {
		t.Fatal(err)
	}
	tail := l.Tail
	l.Mu.Lock()
	close(hold)
	logtest.Until(func() bool { return tail.Pins.Load() > 0 }) // the backup waits for l.mu
	l.AdoptLocked(kept)
	err = l.RollLocked()
	if err == nil {
		err = l.AppendLocked([]*seglog.Pending{{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte("b"), Value: []byte("2")}})
	}
	l.Mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.error != nil || r.Seq != 2 {
		t.Fatalf("the backup goes up to %d: %v", r.Seq, r.error)
	}
	if s.Log().InLog(kept) {
		t.Error("the segment was not compacted meanwhile")
	}
	storetest.Close(t, s)
	storetest.WantSound(t, mem, "copy")
	s, err = store.Open("copy", storetest.Options(mem, func(o *engine.Options) { o.ReadOnly = true }))
	if err != nil {
		t.Fatal(err)
	}
	storetest.WantSame(t, s, map[string]string{"a": "1", "b": "2"})
	storetest.Close(t, s)
}
