package importing

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/cmd/copal/internal/scratch"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/ndjson"
)

// Flags has the flags of import.
type Flags struct {
	from    string
	key     string
	mapName string
	numbers bool
	comma   string
	text    bool
	nested  string
	skipBad bool
	Resume  bool
	dryRun  bool
	json    bool
}

// Bind gives a command the flags.
func (f *Flags) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "the `format`: "+importers.Names())
	cmd.Flags().StringVar(&f.key, "key", "", "jsonl, csv: the `field` that is the key")
	cmd.Flags().StringVar(&f.mapName, "map", "", "jsonl, csv, go-persist: the `map` that the entries are to be in")
	cmd.Flags().BoolVar(&f.numbers, "numbers", false, "csv: what reads as a JSON number is one")
	cmd.Flags().StringVar(&f.comma, "comma", "", "csv: the character between two fields, \\t for a tab")
	cmd.Flags().BoolVar(&f.text, "text", false, "go-persist: a value that is not JSON is a string")
	cmd.Flags().StringVar(&f.nested, "nested", "", "bbolt: import nested buckets too, with this `text` between their names")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "leave out what is no entry, and say so")
	cmd.Flags().BoolVar(&f.Resume, "resume", false, "go on where an import of the same file was interrupted")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read and count, and change nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the counts as JSON")
	cli.Exclude(cmd, "dry-run", "resume")
	cmd.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		for _, f := range importers.Formats {
			names = append(names, f.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// Run imports a file into a store. The arguments are those of the command.
func (f *Flags) Run(a *cli.App, args []string, ofMap bool, out *bufio.Writer) error {
	in := &Intake{App: a, Flags: *f, Dir: args[0], Path: "-"}
	if len(args) == 2 {
		in.Path = args[1]
	}
	if f.mapName == "" && ofMap {
		return cli.UsageError("a map has a name")
	}
	if f.Resume && cli.IsServer(in.Dir) {
		return errResumeFar
	}
	defer a.CatchSignals()()
	defer in.Close()
	if err := in.Open(); err != nil {
		return err
	}
	if err := in.Run(); err != nil {
		return err
	}
	return in.finish(out)
}

// input is a file or a server that is read.
type input struct {
	format importers.Format
	source importers.Source
	file   *os.File
	size   int64 // of the input in bytes, -1 if it is not known
	read   *countingReader
	head   []byte // the first bytes of the input
	bar    *cli.Progress

	next    func() (*importers.Item, error, bool) // goes on in the input
	stop    func()                                // ends that
	first   *importers.Item                       // its first item
	pending bool                                  // if it has anything
}

// collection is the collection whose elements are being read.
type collection struct {
	whole    admin.Entry     // the collection of the elements
	elements []admin.Element // elements to write
	scores   []float64       // theirs, in a sorted set that has them
	at       int64           // its place among the items
	anew     bool            // nothing of it is in the store
	unsent   bool            // it is in the scratch alone
	gone     bool            // it is left out
}

// Intake is one run of the command.
type Intake struct {
	*cli.App
	Flags
	Dir, Path string // path without the password of a server

	input
	broken bool // the store takes no more

	DB      *copal.DB       // nil in a dry run
	To      copying.Target  // the same
	Far     bool            // it is on a server
	types   *copal.DB       // with the types of maps, nil for none
	near    *copal.DB       // gets the elements: of a server the scratch
	scratch scratch.Scratch // for collections of a server
	batch   []*admin.Entry
	bytes   int   // in batch and elements
	skip    int64 // items that an earlier run has dealt with
	unsaved int64 // bytes that count towards the next note of the progress
	seen    int64 // items
	added   int64 // of them, that are in the store or in the batch, or need not be
	done    int64 // of them, that are in the store, or need not be

	collection

	wrong   []string // keys that differ from the source
	lasting int64    // entries without a deadline
	misfit  error    // why the entry that was read last cannot be one of the store

	Result Result
}

// countingReader counts the bytes that are read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Open opens the input and detects its format.
func (in *Intake) Open() error {
	in.Result.Complete, in.Result.DryRun = true, in.dryRun
	in.source = importers.Source{Ctx: in.Ctx, Key: in.key, Numbers: in.numbers, Text: in.text, Nested: in.nested, Bad: in.bad, Note: in.note, LeftOut: in.leftOut}
	in.size = -1
	if in.mapName != "" {
		in.source.Prefix = copal.MapPrefix(in.mapName)
	}
	if in.from != "" {
		f, ok := importers.Named(in.from)
		if !ok {
			return cli.UsageError(fmt.Sprintf("there is no format %q; there are %s", in.from, importers.Names()))
		}
		in.format = f
	}
	if err := in.openInput(); err != nil {
		return err
	}
	in.Result.File, in.Result.Format = in.Path, in.format.Name
	if err := in.checkFlags(); err != nil {
		return err
	}
	return in.readFirst()
}

func (in *Intake) openInput() (err error) {
	if in.Path == "-" {
		if cli.IsTerminal(in.Stdin) {
			return cli.UsageError("standard input is a terminal: give a FILE")
		}
		return in.openStream(in.Input())
	}
	in.source.Path = in.Path
	if importers.IsServer(in.Path) {
		in.Path = importers.Redacted(in.Path)
		if in.format.Name == "" {
			in.format, _ = importers.Named("redis")
		}
		if !in.format.Live {
			return cli.UsageError(fmt.Sprintf("%s is a server, and %s is a file", in.Path, in.format.Name))
		}
		return nil
	}
	if in.format.Live {
		return cli.UsageError(in.format.Name + " is a server: redis://host:port")
	}
	info, err := os.Stat(in.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such file: %s", in.Path)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		found, err := importers.DetectDir(in.Path)
		if errors.Is(err, importers.ErrStore) || err != nil && in.format.Name == "" {
			return fmt.Errorf("%s: %w; --from takes one of %s", in.Path, err, importers.Names())
		}
		if in.format.Name == "" {
			in.format = found
		}
		if in.format.Stream {
			return fmt.Errorf("%s is a directory, and %s is a file", in.Path, in.format.Name)
		}
		return nil
	}
	in.size = info.Size()
	if in.file, err = os.Open(in.Path); err != nil {
		return err
	}
	if err = in.openStream(in.file); err == nil && !in.format.Stream && !info.Mode().IsRegular() {
		err = cli.UsageError(in.format.Name + " cannot be read from a pipe or a device: " + in.Path)
	}
	return err
}

func (in *Intake) openStream(r io.Reader) error {
	in.read = &countingReader{r: r}
	buffered := bufio.NewReaderSize(in.read, importers.HeadBytes)
	head, err := buffered.Peek(importers.HeadBytes)
	if err != nil && err != io.EOF {
		return err
	}
	in.head = bytes.Clone(head)
	in.source.In = buffered
	if in.format.Name != "" {
		if !in.format.Stream && in.source.Path == "" {
			return cli.UsageError(in.format.Name + " cannot be read from standard input: give a FILE")
		}
		return nil
	}
	if len(head) == 0 {
		return fmt.Errorf("%s is empty", in.Path)
	}
	found, err := importers.Detect(in.source.Path, head)
	if err == nil && !found.Stream && in.source.Path == "" {
		return cli.UsageError(found.Name + " cannot be read from standard input: give a FILE")
	}
	if err != nil {
		return cli.UsageError(fmt.Sprintf("%s: %v; --from takes one of %s", in.Path, err, importers.Names()))
	}
	in.format = found
	return nil
}

// checkFlags refuses flags that have no meaning for the format.
func (in *Intake) checkFlags() error {
	name := in.format.Name
	for _, flag := range []struct {
		name  string
		given bool
		of    []string
	}{
		{"--key", in.key != "", []string{"jsonl", "csv"}},
		{"--map", in.mapName != "", []string{"jsonl", "csv", "go-persist"}},
		{"--numbers", in.numbers, []string{"csv"}},
		{"--comma", in.comma != "", []string{"csv"}},
		{"--text", in.text, []string{"go-persist"}},
		{"--nested", in.nested != "", []string{"bbolt"}},
	} {
		fits := !flag.given
		for _, of := range flag.of {
			fits = fits || of == name
		}
		if !fits {
			return cli.UsageError(fmt.Sprintf("%s is not for %s", flag.name, name))
		}
	}
	if in.Resume && in.format.Live {
		return cli.UsageError("--resume is for files: a server gives its keys in another order each time")
	}
	if name == "csv" && in.key == "" {
		return cli.UsageError("csv needs --key, the column that is the key")
	}
	if in.comma == `\t` {
		in.comma = "\t"
	}
	if in.comma != "" {
		r, n := utf8.DecodeRuneInString(in.comma)
		if n != len(in.comma) || r == utf8.RuneError || r == '"' || r == '\n' || r == '\r' {
			return cli.UsageError("--comma takes one character, and no quote")
		}
		in.source.Comma = r
	}
	return nil
}

// Close closes the input.
func (in *Intake) Close() {
	if in.stop != nil {
		in.stop()
		in.bar.Clear()
	}
	if in.file != nil {
		in.file.Close()
	}
}

// readFirst reads up to the first item before a store is opened, so that a refused import makes and
// changes none.
func (in *Intake) readFirst() (err error) {
	if in.size >= 0 {
		in.bar = in.NewProgress("importing")
	} else {
		in.bar = in.NewCount("importing", "entries")
	}
	in.next, in.stop = iter.Pull2(in.items)
	in.first, err, in.pending = in.next()
	return err
}

// Run reads the input into the store.
func (in *Intake) Run() error {
	if in.dryRun {
		return in.take()
	}
	in.Own = in.work()
	return in.UpdateOrCreate(in.Dir, in.Into)
}

// items yields the items of the input, and at last an error if there is one.
func (in *Intake) items(yield func(*importers.Item, error) bool) {
	err := in.format.Read(&in.source, func(item *importers.Item) error {
		if !yield(item, nil) {
			return cli.ErrInterrupted
		}
		return nil
	})
	if err != nil && err != cli.ErrInterrupted {
		if in.Ctx.Err() != nil {
			err = cli.ErrInterrupted
		} else {
			err = fmt.Errorf("%s: %w", in.Path, err)
		}
		yield(nil, err)
	}
}

// Into imports into a store.
func (in *Intake) Into(db *copal.DB) (err error) {
	in.DB, in.near, in.types, in.To, in.Far = db, db, db, copying.Into(db), cli.IsFar(db)
	if in.Far {
		defer func() { err = errors.Join(err, in.scratch.Close()) }()
		closed, err := in.openTypes()
		if err != nil {
			return err
		}
		defer closed()
	}
	if err := in.findProgress(); err != nil {
		return err
	}
	if err := in.NoteNew(in.Dir, db, in.work()); err != nil {
		return err
	}
	if in.mapName != "" {
		if err := in.To.Declare(in.ending(), in.mapName); err != nil {
			return err
		}
	}
	if err := in.take(); err != nil {
		return in.stopped(errors.Join(err, in.flush())) // items read so far stay
	}
	if err := errors.Join(in.endCollection(), in.flush()); err != nil {
		return in.stopped(err)
	}
	if in.Far {
		if err := in.To.Sync(in.ending()); err != nil {
			return err
		}
	}
	if err := errors.Join(in.forgetProgress(), in.EndNew(in.Dir, db, in.work())); err != nil || !in.format.Redis {
		return err
	}
	return in.Verify()
}

// openTypes opens the log of a store in a directory that a server has open, for the types of maps.
// A server elsewhere does not have them.
func (in *Intake) openTypes() (closed func() error, err error) {
	if in.types = nil; in.Host != nil || cli.IsServer(in.Dir) {
		return func() error { return nil }, nil
	}
	if in.types, err = in.OpenStore(in.Dir, copal.ReadOnly()); err != nil {
		return nil, err
	}
	return in.types.Close, nil
}

// ending returns the context of work that must end in order after the user interrupts.
func (in *Intake) ending() context.Context { return context.WithoutCancel(in.Ctx) }

// take reads the input to its end.
func (in *Intake) take() error {
	defer func() {
		if in.read != nil {
			in.Result.Bytes = in.read.n
		}
		in.bar.Clear()
	}()
	for item, err, ok := in.first, error(nil), in.pending; ok; item, err, ok = in.next() {
		if err == nil {
			err = in.item(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// item deals with one item.
func (in *Intake) item(item *importers.Item) error {
	if in.Ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	if item.Map != "" {
		if in.DB == nil {
			return nil
		}
		return in.To.Declare(in.ending(), item.Map)
	}
	in.seen++
	if in.seen%1024 == 0 {
		in.show()
	}
	err := in.deal(item)
	if err == nil {
		in.added = in.seen
	}
	return err
}

// deal handles an entry or a deletion.
func (in *Intake) deal(item *importers.Item) error {
	if item.Element == nil {
		in.misfit = in.fits(&item.Entry)
		if in.DB != nil {
			if err := in.begin(item); err != nil {
				return err
			}
		}
	}
	switch {
	case in.seen <= in.skip:
		if item.Element == nil {
			in.Result.Resumed++
		}
		return nil
	case item.Element != nil:
		return in.element(item)
	case in.misfit != nil:
		return in.bad(&ndjson.LineError{Reason: in.misfit.Error()})
	case item.Delete:
		in.Result.Deleted++
	case expired(&item.Entry):
		in.Result.Expired++
		return nil
	default:
		in.Result.Entries++
		if item.Content != "" && in.DB != nil && !in.To.Typed() {
			in.Result.Contents++
		}
		if item.Expires.IsZero() {
			in.lasting++
		}
	}
	if in.DB == nil || item.Collection != "" {
		return nil
	}
	return in.Put(item)
}

// fits returns an error for a key that is too long, or an entry of Redis that the typed map of its
// key refuses.
func (in *Intake) fits(e *admin.Entry) error {
	switch {
	case len(e.Key) > copal.MaxKeyBytes:
		return fmt.Errorf("entry %d has a key of %d bytes, and the most is %d", in.seen, len(e.Key), copal.MaxKeyBytes)
	case in.DB == nil:
		return nil
	}
	switch {
	case in.types == nil || !in.format.Redis || bytes.IndexByte(e.Key, ':') < 0:
		return nil
	case e.Collection == "":
		return admin.Fit(in.types, e)
	}
	typed, err := admin.IsTyped(in.types, e.Key)
	if typed {
		return fmt.Errorf("key %q belongs to a typed map, which holds no collections", e.Key)
	}
	return err
}

// countReplaced counts entries that are about to take the place of others. A server is asked for
// many at once.
func (in *Intake) countReplaced(keys ...[]byte) error {
	if !in.Far {
		for _, key := range keys {
			if in.DB.Raw().Has(key) {
				in.Result.Replaced++
			}
		}
		return nil
	}
	var n atomic.Int64
	for some := range slices.Chunk(keys, atOnce) {
		errs := make([]error, len(some))
		var wait sync.WaitGroup
		for i, key := range some {
			wait.Go(func() {
				_, err := in.DB.Raw().Type(key)
				if err == nil {
					n.Add(1)
				} else if !errors.Is(err, copal.ErrNotFound) {
					errs[i] = err
				}
			})
		}
		wait.Wait()
		if err := cmp.Or(errs...); err != nil { // one of many that say the same
			return err
		}
	}
	in.Result.Replaced += n.Load()
	return nil
}

// atOnce is the number of keys to ask a server for at a time.
const atOnce = 256

func expired(e *admin.Entry) bool { return !e.Expires.IsZero() && !e.Expires.After(time.Now()) }

func (in *Intake) show() {
	if in.size >= 0 {
		in.bar.Show(in.read.n, in.size)
	} else {
		in.bar.Show(in.seen, -1)
	}
}

const batchBytes = 1 << 20

// BatchEntries is the most entries of one write. Tests lower it.
var BatchEntries = 4096

// Put adds an item to the batch, which is written when it is full. A large value is written by
// itself.
func (in *Intake) Put(item *importers.Item) error {
	size := len(item.Key) + len(item.Value)
	in.unsaved += int64(size) + 64
	if !item.Delete && size > batchBytes {
		if err := in.flush(); err != nil {
			return err
		}
		if err := in.countReplaced(item.Key); err != nil {
			return in.broke(err)
		}
		if err := in.To.Put(in.ending(), []*admin.Entry{&item.Entry}); err != nil {
			return fmt.Errorf("key %q: %w", item.Key, err)
		}
		return in.save()
	}
	e := item.Entry
	e.Key, e.Value, e.Deleted = bytes.Clone(e.Key), bytes.Clone(e.Value), item.Delete
	in.batch = append(in.batch, &e)
	return in.more(size)
}

// more writes the batch and the elements when they are enough.
func (in *Intake) more(size int) error {
	if in.bytes += size; in.bytes < batchBytes && len(in.batch)+len(in.elements) < BatchEntries {
		return nil
	}
	if err := in.flush(); err != nil {
		return err
	}
	return in.save()
}

// flush writes the batch and the elements.
func (in *Intake) flush() error {
	if in.broken {
		return nil // its error has been returned
	}
	if err := in.flushElements(); err != nil {
		return in.broke(err)
	}
	if len(in.batch) > 0 {
		err := in.countBatch()
		if err == nil {
			err = in.To.Put(in.ending(), in.batch)
		}
		if err != nil {
			return in.broke(err)
		}
		clear(in.batch)
		in.batch = in.batch[:0]
	}
	in.bytes = 0
	if in.done = in.added; in.anew { // elements, the first of which replaces the old content of the key
		in.done = in.at - 1
	}
	return nil
}

// broke notes that the store has refused a write, so that flush does not try again.
func (in *Intake) broke(err error) error {
	in.broken = true
	return err
}

// countBatch does the same as countReplaced for the batch, in which a key may come several times.
func (in *Intake) countBatch() error {
	before := map[string]bool{} // whether the key has an entry in the batch so far
	var first [][]byte
	for _, e := range in.batch {
		is, known := before[string(e.Key)]
		before[string(e.Key)] = !e.Deleted
		switch {
		case e.Deleted:
		case is:
			in.Result.Replaced++
		case !known:
			first = append(first, e.Key)
		}
	}
	return in.countReplaced(first...)
}
