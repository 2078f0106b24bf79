package main

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
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/ndjson"
)

const importHelp = `Read entries that 'copal export' or another program has written into a store, in the
place of those that are under their keys.

FILE "-", or none, is standard input. A store that is missing is created. The formats,
which are recognized where --from does not say:

  copal       what copal export writes
  jsonl       JSON objects, one on each line: --key names the field that is the key, and
              the object is the value; without, {"key":"users:alice","value":{"Age":28}}
  csv         a table with a row of names: --key names the column that is the key, and
              the row becomes an object, of strings or, with --numbers, of numbers too
  go-persist  a log of go-persist
  bbolt       a file: the keys of a bucket get its name in front, as those of a map
  badger      a directory, which was closed, with deadlines
  buntdb      a file, with deadlines
  rdb         a file of Redis or Valkey, with deadlines; the keys of database 1 get db%3a1:
              in front, as those of a map db:1
  redis       what a server of Redis has now: FILE is redis://user:password@host:port/1,
              without a database all of them, rediss:// for TLS, unix:///run/redis.sock;
              the password may stand in the variable REDISCLI_AUTH instead

What is refused, for what the file is or begins with, changes nothing and makes no store.
A last line that was cut is told of and left out; what stands before it arrives. A line
amid the others that is none ends the import, unless --skip-bad leaves it out. Entries
that have expired are left out and counted.

After an import from Redis, file or server, all is read once more, and each key compared
with what the store has under it. Values of modules and functions are told of, counted
and left out. Of a server that is written to meanwhile, the keys that differ are
those to be imported once more; keys that are deleted there meanwhile stay in the store,
and those without a deadline are counted.

What was interrupted can be done again from the beginning, which gives the same, or with
--resume, which goes on about where it ended: the file IMPORT in the store's directory
says where, as long as an import is not through.

DIR may be a server, too, in the place of the directory: redis://host:port. A copal serve
keeps all that a directory keeps. On a Redis a value is the bytes that its codec has made,
content types are left out and counted, and a stream keeps less; it has to be Redis 7.0 or
later to take streams. What is written counts as it comes: up to 4096 entries together,
where the server takes that, and a collection in parts; one at a time is in memory. A
value of more than 512 MiB is an error. There is no --resume then. Values from Redis are
not fitted to typed maps, which a server does not tell.`

const importExample = `  copal import app.db < dump.ndjson
  copal import app.db users.csv --key id --map users --numbers
  copal import app.db old.bolt --dry-run
  copal import app.db --from badger /var/lib/old
  copal import app.db /var/lib/redis/dump.rdb
  copal import app.db redis://localhost:6379
  copal import redis://localhost:6379 dump.ndjson`

// importFlags say what is imported, and how.
type importFlags struct {
	from    string
	key     string
	mapName string
	numbers bool
	comma   string
	text    bool
	nested  string
	skipBad bool
	resume  bool
	dryRun  bool
	json    bool
}

func newImport(a *app) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:     "import DIR [FILE]",
		Short:   "Read entries from a file or a server",
		Long:    importHelp,
		Example: importExample,
		Args:    arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return completeDir(cmd, args, word)
		},
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		in := &intake{app: a, importFlags: f, dir: args[0], path: "-"}
		if len(args) == 2 {
			in.path = args[1]
		}
		if f.mapName == "" && cmd.Flags().Changed("map") {
			return usageError{"a map has a name"}
		}
		if f.resume && isServer(in.dir) {
			return errResumeFar
		}
		defer a.catchSignals()()
		defer in.close()
		if err := in.open(); err != nil {
			return err
		}
		if err := in.run(); err != nil {
			return err
		}
		return in.finish(out)
	})
	cmd.Flags().StringVar(&f.from, "from", "", "the `format`: "+importers.Names())
	cmd.Flags().StringVar(&f.key, "key", "", "jsonl, csv: the `field` that is the key")
	cmd.Flags().StringVar(&f.mapName, "map", "", "jsonl, csv, go-persist: the `map` that the entries are to be in")
	cmd.Flags().BoolVar(&f.numbers, "numbers", false, "csv: what reads as a JSON number is one")
	cmd.Flags().StringVar(&f.comma, "comma", "", "csv: the character between two fields, \\t for a tab")
	cmd.Flags().BoolVar(&f.text, "text", false, "go-persist: a value that is not JSON is a string")
	cmd.Flags().StringVar(&f.nested, "nested", "", "bbolt: import nested buckets too, with this `text` between their names")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "leave out what is no entry, and say so")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "go on where an import of the same file was interrupted")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read and count, and change nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the counts as JSON")
	exclude(cmd, "dry-run", "resume")
	cmd.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		for _, f := range importers.Formats {
			names = append(names, f.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// intake is one run of the command.
type intake struct {
	*app
	importFlags
	dir, path string // path without the password of a server

	format importers.Format
	source importers.Source
	file   *os.File
	size   int64 // of the input in bytes, -1 if it is not known
	read   *countingReader
	head   []byte // what the input begins with
	bar    *progress

	next    func() (*importers.Item, error, bool) // goes on in the input
	stop    func()                                // ends that
	first   *importers.Item                       // what it begins with
	pending bool                                  // if it has anything
	broken  bool                                  // the store takes no more

	db      *copal.DB      // nil in a dry run
	to      copying.Target // the same
	far     bool           // it is on a server
	types   *copal.DB      // that tells the types of maps, nil for none
	near    *copal.DB      // that elements are put into: of a server the scratch
	scratch scratch        // for collections of a server
	batch   []*admin.Entry
	bytes   int   // in batch and elements
	skip    int64 // items that an earlier run has dealt with
	unsaved int64 // bytes that count towards the next note of how far it is
	seen    int64 // items
	added   int64 // of them, that are in the store or in the batch, or need not be
	done    int64 // of them, that are in the store, or need not be

	whole    admin.Entry     // the collection that the elements are of
	elements []admin.Element // that are to be written
	scores   []float64       // theirs, in a sorted set that has them
	at       int64           // its place among the items
	anew     bool            // nothing of it is in the store
	unsent   bool            // it is in the scratch alone
	gone     bool            // it is left out

	wrong   []string // keys that differ from what was read
	lasting int64    // entries without a deadline
	misfit  error    // why the entry that was read last cannot be one of the store

	result importJSON
}

// countingReader knows how much was read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// open opens the input and finds out what it is.
func (in *intake) open() error {
	in.result.Complete, in.result.DryRun = true, in.dryRun
	in.source = importers.Source{Ctx: in.ctx, Key: in.key, Numbers: in.numbers, Text: in.text, Nested: in.nested, Bad: in.bad, Note: in.note, LeftOut: in.leftOut}
	in.size = -1
	if in.mapName != "" {
		in.source.Prefix = copal.MapPrefix(in.mapName)
	}
	if in.from != "" {
		f, ok := importers.Named(in.from)
		if !ok {
			return usageError{fmt.Sprintf("there is no format %q; there are %s", in.from, importers.Names())}
		}
		in.format = f
	}
	if err := in.openInput(); err != nil {
		return err
	}
	in.result.File, in.result.Format = in.path, in.format.Name
	if err := in.checkFlags(); err != nil {
		return err
	}
	return in.readFirst()
}

func (in *intake) openInput() (err error) {
	if in.path == "-" {
		if isTerminal(in.stdin) {
			return usageError{"standard input is a terminal: give a FILE"}
		}
		return in.openStream(in.input())
	}
	in.source.Path = in.path
	if importers.IsServer(in.path) {
		in.path = importers.Redacted(in.path)
		if in.format.Name == "" {
			in.format, _ = importers.Named("redis")
		}
		if !in.format.Live {
			return usageError{fmt.Sprintf("%s is a server, and %s is a file", in.path, in.format.Name)}
		}
		return nil
	}
	if in.format.Live {
		return usageError{in.format.Name + " is a server: redis://host:port"}
	}
	info, err := os.Stat(in.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such file: %s", in.path)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		found, err := importers.DetectDir(in.path)
		if errors.Is(err, importers.ErrStore) || err != nil && in.format.Name == "" {
			return fmt.Errorf("%s: %w; --from takes one of %s", in.path, err, importers.Names())
		}
		if in.format.Name == "" {
			in.format = found
		}
		if in.format.Stream {
			return fmt.Errorf("%s is a directory, and %s is a file", in.path, in.format.Name)
		}
		return nil
	}
	in.size = info.Size()
	if in.file, err = os.Open(in.path); err != nil {
		return err
	}
	if err = in.openStream(in.file); err == nil && !in.format.Stream && !info.Mode().IsRegular() {
		err = usageError{in.format.Name + " cannot be read from a pipe or a device: " + in.path}
	}
	return err
}

func (in *intake) openStream(r io.Reader) error {
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
			return usageError{in.format.Name + " cannot be read from standard input: give a FILE"}
		}
		return nil
	}
	if len(head) == 0 {
		return fmt.Errorf("%s is empty", in.path)
	}
	found, err := importers.Detect(in.source.Path, head)
	if err == nil && !found.Stream && in.source.Path == "" {
		return usageError{found.Name + " cannot be read from standard input: give a FILE"}
	}
	if err != nil {
		return usageError{fmt.Sprintf("%s: %v; --from takes one of %s", in.path, err, importers.Names())}
	}
	in.format = found
	return nil
}

// checkFlags refuses what has no meaning for the format.
func (in *intake) checkFlags() error {
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
			return usageError{fmt.Sprintf("%s is not for %s", flag.name, name)}
		}
	}
	if in.resume && in.format.Live {
		return usageError{"--resume is for files: a server gives its keys in another order each time"}
	}
	if name == "csv" && in.key == "" {
		return usageError{"csv needs --key, the column that is the key"}
	}
	if in.comma == `\t` {
		in.comma = "\t"
	}
	if in.comma != "" {
		r, n := utf8.DecodeRuneInString(in.comma)
		if n != len(in.comma) || r == utf8.RuneError || r == '"' || r == '\n' || r == '\r' {
			return usageError{"--comma takes one character, and no quote"}
		}
		in.source.Comma = r
	}
	return nil
}

func (in *intake) close() {
	if in.stop != nil {
		in.stop()
		in.bar.clear()
	}
	if in.file != nil {
		in.file.Close()
	}
}

// readFirst reads up to the first item before a store is opened, so that a refused import makes and changes none.
func (in *intake) readFirst() (err error) {
	if in.size >= 0 {
		in.bar = in.newProgress("importing")
	} else {
		in.bar = in.newCount("importing", "entries")
	}
	in.next, in.stop = iter.Pull2(in.items)
	in.first, err, in.pending = in.next()
	return err
}

func (in *intake) run() error {
	if in.dryRun {
		return in.take()
	}
	in.own = in.work()
	return in.updateOrCreate(in.dir, in.into)
}

// items yields what the input has, and at last an error if there is one.
func (in *intake) items(yield func(*importers.Item, error) bool) {
	err := in.format.Read(&in.source, func(item *importers.Item) error {
		if !yield(item, nil) {
			return errInterrupted
		}
		return nil
	})
	if err != nil && err != errInterrupted {
		if in.ctx.Err() != nil {
			err = errInterrupted
		} else {
			err = fmt.Errorf("%s: %w", in.path, err)
		}
		yield(nil, err)
	}
}

// into imports into a store.
func (in *intake) into(db *copal.DB) (err error) {
	in.db, in.near, in.types, in.to, in.far = db, db, db, copying.Into(db), isFar(db)
	if in.far {
		defer func() { err = errors.Join(err, in.scratch.close()) }()
		closed, err := in.openTypes()
		if err != nil {
			return err
		}
		defer closed()
	}
	if err := in.findProgress(); err != nil {
		return err
	}
	if err := in.noteNew(in.dir, db, in.work()); err != nil {
		return err
	}
	if in.mapName != "" {
		if err := in.to.Declare(in.ending(), in.mapName); err != nil {
			return err
		}
	}
	if err := in.take(); err != nil {
		return in.stopped(errors.Join(err, in.flush())) // what has arrived stays
	}
	if err := errors.Join(in.endCollection(), in.flush()); err != nil {
		return in.stopped(err)
	}
	if in.far {
		if err := in.to.Sync(in.ending()); err != nil {
			return err
		}
	}
	if err := errors.Join(in.forgetProgress(), in.endNew(in.dir, db, in.work())); err != nil || !in.format.Redis {
		return err
	}
	return in.verify()
}

// openTypes opens the log of a store in a directory that a server has open: it tells the types of maps. A server
// elsewhere does not.
func (in *intake) openTypes() (closed func() error, err error) {
	if in.types = nil; in.host != nil || isServer(in.dir) {
		return func() error { return nil }, nil
	}
	if in.types, err = in.openStore(in.dir, copal.ReadOnly()); err != nil {
		return nil, err
	}
	return in.types.Close, nil
}

// ending is for what is to be ended in order when the user has had enough.
func (in *intake) ending() context.Context { return context.WithoutCancel(in.ctx) }

// take reads the input to its end.
func (in *intake) take() error {
	defer func() {
		if in.read != nil {
			in.result.Bytes = in.read.n
		}
		in.bar.clear()
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
func (in *intake) item(item *importers.Item) error {
	if in.ctx.Err() != nil {
		return errInterrupted
	}
	if item.Map != "" {
		if in.db == nil {
			return nil
		}
		return in.to.Declare(in.ending(), item.Map)
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

// deal is item for an entry or a deletion.
func (in *intake) deal(item *importers.Item) error {
	if item.Element == nil {
		in.misfit = in.fits(&item.Entry)
		if in.db != nil {
			if err := in.begin(item); err != nil {
				return err
			}
		}
	}
	switch {
	case in.seen <= in.skip:
		if item.Element == nil {
			in.result.Resumed++
		}
		return nil
	case item.Element != nil:
		return in.element(item)
	case in.misfit != nil:
		return in.bad(&ndjson.LineError{Reason: in.misfit.Error()})
	case item.Delete:
		in.result.Deleted++
	case expired(&item.Entry):
		in.result.Expired++
		return nil
	default:
		in.result.Entries++
		if item.Content != "" && in.db != nil && !in.to.Typed() {
			in.result.Contents++
		}
		if item.Expires.IsZero() {
			in.lasting++
		}
	}
	if in.db == nil || item.Collection != "" {
		return nil
	}
	return in.put(item)
}

// fits returns an error for a key that is too long, or an entry of Redis that the typed map of its key refuses.
func (in *intake) fits(e *admin.Entry) error {
	switch {
	case len(e.Key) > copal.MaxKeyBytes:
		return fmt.Errorf("entry %d has a key of %d bytes, and the most is %d", in.seen, len(e.Key), copal.MaxKeyBytes)
	case in.db == nil:
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

// countReplaced counts entries that are about to take the place of others. A server is asked for many at once.
func (in *intake) countReplaced(keys ...[]byte) error {
	if !in.far {
		for _, key := range keys {
			if in.db.Raw().Has(key) {
				in.result.Replaced++
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
				_, err := in.db.Raw().Type(key)
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
	in.result.Replaced += n.Load()
	return nil
}

// atOnce is how many keys a server is asked for at a time.
const atOnce = 256

func expired(e *admin.Entry) bool { return !e.Expires.IsZero() && !e.Expires.After(time.Now()) }

func (in *intake) show() {
	if in.size >= 0 {
		in.bar.show(in.read.n, in.size)
	} else {
		in.bar.show(in.seen, -1)
	}
}

const batchBytes = 1 << 20

// batchEntries is a variable for the sake of tests.
var batchEntries = 4096

// put adds an item to the batch, which is written when it is full. A large value is written by itself.
func (in *intake) put(item *importers.Item) error {
	size := len(item.Key) + len(item.Value)
	in.unsaved += int64(size) + 64
	if !item.Delete && size > batchBytes {
		if err := in.flush(); err != nil {
			return err
		}
		if err := in.countReplaced(item.Key); err != nil {
			return in.broke(err)
		}
		if err := in.to.Put(in.ending(), []*admin.Entry{&item.Entry}); err != nil {
			return fmt.Errorf("key %q: %w", item.Key, err)
		}
		return in.save()
	}
	e := item.Entry
	e.Key, e.Value, e.Deleted = bytes.Clone(e.Key), bytes.Clone(e.Value), item.Delete
	in.batch = append(in.batch, &e)
	return in.more(size)
}

// more writes what is to be written together when it is enough.
func (in *intake) more(size int) error {
	if in.bytes += size; in.bytes < batchBytes && len(in.batch)+len(in.elements) < batchEntries {
		return nil
	}
	if err := in.flush(); err != nil {
		return err
	}
	return in.save()
}

// flush writes what is to be written together.
func (in *intake) flush() error {
	if in.broken {
		return nil // its error was told
	}
	if err := in.flushElements(); err != nil {
		return in.broke(err)
	}
	if len(in.batch) > 0 {
		err := in.countBatch()
		if err == nil {
			err = in.to.Put(in.ending(), in.batch)
		}
		if err != nil {
			return in.broke(err)
		}
		clear(in.batch)
		in.batch = in.batch[:0]
	}
	in.bytes = 0
	if in.done = in.added; in.anew { // elements, the first of which replaces what the key holds
		in.done = in.at - 1
	}
	return nil
}

// broke notes that the store has not taken what was to be written, which is not tried once more.
func (in *intake) broke(err error) error {
	in.broken = true
	return err
}

// countBatch is countReplaced for the batch, in which a key may come several times.
func (in *intake) countBatch() error {
	before := map[string]bool{} // what the batch has made of keys so far
	var first [][]byte
	for _, e := range in.batch {
		is, known := before[string(e.Key)]
		before[string(e.Key)] = !e.Deleted
		switch {
		case e.Deleted:
		case is:
			in.result.Replaced++
		case !known:
			first = append(first, e.Key)
		}
	}
	return in.countReplaced(first...)
}
