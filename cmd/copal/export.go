package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/ndjson"
)

const exportHelp = `Write entries as lines of JSON, from which 'copal import' makes the same entries again.

A line holds an entry: its key, its deadline, and its value, as JSON where it is JSON,
as text where it is text, and else as base64. What a codec has encoded stays so, and a
line says which and for what type; see docs/export-format.md. All of it is the store at
one moment, whatever a process writes meanwhile, in the order of the keys. --at MOMENT
takes an earlier one; see copal --help.

FILE "-", or none, is standard output. A file appears under its name when it is whole;
until then it is FILE.part. If the command is interrupted, or the disk is full, that
stays, and --continue goes on behind its last whole line; also in a FILE that was cut.
If the store has changed since, --continue needs --mixed, for then the file is the store
at two moments, one part after the other.

The last line says that the export is whole, and has a checksum of it.

DIR may be a server: redis://host:port. A copal serve is exported as it is at one moment,
with all that its directory has. A plain Redis has no moments: what is written to it
meanwhile may be in the export or not, all its keys are in memory, and --continue needs
--mixed. A value of a module there is an error, unless --skip-bad leaves it out. Of a
server one collection at a time is in memory, and --seq and --at are refused.`

const exportExample = `  copal export app.db > dump.ndjson
  copal export app.db --map users users.ndjson
  copal export app.db dump.ndjson --continue
  copal export app.db | ssh host copal import app.db
  copal export redis://localhost:6379 dump.ndjson`

// exportFlags say what is exported, and how.
type exportFlags struct {
	maps, prefixes []string
	after          string
	quoted         bool
	seq            bool
	again, mixed   bool
	force          bool
	skipBad        bool
	json           bool
}

func newExport(a *app) *cobra.Command {
	var f exportFlags
	var at *momentFlag
	cmd := &cobra.Command{
		Use:     "export DIR [FILE]",
		Short:   "Write entries as lines of JSON",
		Long:    exportHelp,
		Example: exportExample,
		Args:    arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return completeDir(cmd, args, word)
		},
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		x := &export{app: a, exportFlags: f, after: nil}
		if err := x.parse(cmd.Flags().Changed("after")); err != nil {
			return err
		}
		file := "-"
		if len(args) == 2 {
			file = args[1]
		}
		if file == "-" && (f.again || f.force) {
			return usageError{"--continue and --force are for a FILE"}
		}
		if isServer(args[0]) && f.seq {
			return usageError{"--seq needs a directory: a server does not tell the sequence numbers of entries"}
		}
		defer a.catchSignals()()
		return at.view(args[0], func(s source) error { return x.run(s, file, out) })
	})
	cmd.Flags().StringArrayVar(&f.maps, "map", nil, "export only this map; may be given several times")
	cmd.Flags().StringArrayVar(&f.prefixes, "prefix", nil, "export only keys that begin with this; may be given several times")
	cmd.Flags().StringVar(&f.after, "after", "", "begin behind this key")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, quotedUsage)
	cmd.Flags().BoolVar(&f.seq, "seq", false, "say of each entry its sequence number, and when it was written")
	cmd.Flags().BoolVar(&f.again, "continue", false, "go on with an export that was cut")
	cmd.Flags().BoolVar(&f.mixed, "mixed", false, "with --continue, also when the store has changed meanwhile")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace a FILE that is there")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "leave out entries and elements that cannot be read, and say so")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the counts as JSON; on standard error if the entries are on standard output")
	at = a.addAt(cmd, "export")
	exclude(cmd, "continue", "force")
	return cmd
}

// export is one run of the command.
type export struct {
	*app
	exportFlags
	after []byte // the key
	spans []span // what is asked for, in order, without overlaps
	of    string // the same in words, "" for all

	scratch scratch // for collections of a server

	result exportJSON
}

// span is a range of keys. A nil to is no end.
type span struct{ from, to []byte }

// exportJSON is what --json prints.
type exportJSON struct {
	File       string `json:"file"`
	Entries    int64  `json:"entries"`
	Bytes      int64  `json:"bytes"`
	Seq        uint64 `json:"seq"`
	Continued  bool   `json:"continued,omitempty"`
	Unreadable int64  `json:"unreadable,omitempty"`
}

// parse makes ranges of keys of what the flags say.
func (x *export) parse(after bool) error {
	var words []string
	for _, name := range x.maps {
		if name == "" {
			return usageError{"a map has a name"}
		}
		x.spans = append(x.spans, prefixSpan(copal.MapPrefix(name)))
		words = append(words, "map "+strconv.Quote(name))
	}
	prefixes, err := parseKeys(x.prefixes, x.quoted)
	if err != nil {
		return err
	}
	for _, p := range prefixes {
		x.spans = append(x.spans, prefixSpan(p))
		words = append(words, "prefix "+strconv.Quote(string(p)))
	}
	if x.spans == nil {
		x.spans = []span{{}}
	}
	x.spans = disjoint(x.spans)
	if after {
		if x.after, err = parseKey(x.exportFlags.after, x.quoted); err != nil {
			return err
		}
		x.spans = spansAfter(x.spans, x.after)
		words = append(words, "after "+strconv.Quote(string(x.after)))
	}
	slices.Sort(words)
	x.of = strings.Join(words, ", ")
	return nil
}

// prefixSpan is the range of the keys that begin with p.
func prefixSpan(p []byte) span {
	s := span{from: p}
	for n := len(p); n > 0; n-- {
		if p[n-1] != 0xff {
			s.to = bytes.Clone(p[:n])
			s.to[n-1]++
			break
		}
	}
	return s
}

// disjoint puts ranges of prefixes in order, and leaves out those that are in another.
func disjoint(spans []span) (list []span) {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(bytes.Compare(a.from, b.from), -compareEnds(a.to, b.to))
	})
	for _, s := range spans {
		if len(list) == 0 || compareEnds(list[len(list)-1].to, s.to) < 0 {
			list = append(list, s)
		}
	}
	return list
}

func compareEnds(a, b []byte) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return bytes.Compare(a, b)
}

// spansAfter is what of the ranges follows a key.
func spansAfter(spans []span, key []byte) (list []span) {
	next := append(bytes.Clone(key), 0)
	for _, s := range spans {
		if bytes.Compare(s.from, next) < 0 {
			s.from = next
		}
		if s.to == nil || bytes.Compare(s.from, s.to) < 0 {
			list = append(list, s)
		}
	}
	return list
}

// countEntries is a number of entries in words.
func countEntries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func (x *export) run(from source, file string, out *bufio.Writer) error {
	if from.at != nil {
		return x.runIn(from, file, out)
	}
	return x.readWhole(from.db, func(from source) error { return x.runIn(from, file, out) })
}

func (x *export) runIn(from source, file string, out *bufio.Writer) error {
	defer func() { x.scratch.close() }()
	if err := x.haveMaps(from); err != nil {
		return err
	}
	if !from.isMoment() {
		x.note("the server has no snapshots: what is written to it meanwhile may be in the export or not")
	}
	x.result.File = file
	x.result.Seq, _ = from.moment()
	if file == "-" {
		w, err := ndjson.NewWriter(out, x.head(from))
		if err == nil {
			err = x.write(from, w)
		}
		return x.finish(w, err, x.stderr)
	}
	w, err := x.toFile(from, file)
	return x.finish(w, err, out)
}

func (x *export) head(s source) ndjson.Head {
	seq, at := s.moment()
	return ndjson.Head{Seq: seq, Time: at, From: x.of}
}

// haveMaps refuses the name of a map that there is not: it is mistyped.
func (x *export) haveMaps(s source) error {
	known, err := x.known(s)
	if err != nil {
		return err
	}
	for _, name := range x.maps {
		if _, is := known[name]; !is && !haveKeys(s, copal.MapPrefix(name)) {
			return notFound{"map " + showKey([]byte(name)), unknownMap(s, copal.MapPrefix(name))}
		}
	}
	return nil
}

// known are the maps that the store says it has, and whether they have entries.
func (x *export) known(s source) (map[string]bool, error) {
	names := map[string]bool{}
	if s.far == nil {
		for name, n := range s.maps() {
			names[name] = n > 0
		}
		return names, nil
	}
	list, err := s.far.Maps(x.ctx)
	for _, name := range list {
		names[name] = haveKeys(s, copal.MapPrefix(name))
	}
	return names, err
}

// haveKeys reports whether a key begins with prefix: entries that set or import has written are those of a map
// that no program has opened yet.
func haveKeys(s source, prefix []byte) bool {
	if s.far != nil {
		for range s.far.Entries(prefix, behind(prefix)) {
			return true
		}
		return false
	}
	for _, err := range s.keys(prefix, behind(prefix), false) {
		if err == nil {
			return true
		}
	}
	return false
}

// write writes what is asked for, and the last line.
func (x *export) write(from source, w *ndjson.Writer) error {
	w.Seq = x.seq
	if w.State().Entries == 0 {
		if err := x.writeMaps(from, w); err != nil {
			return err
		}
	}
	bar, total := x.newCount("exporting", "entries"), x.total(from)
	bar.show(w.State().Entries, total) // before the keys are sorted, which may take long
	defer bar.clear()
	if s := from.at; s != nil {
		defer context.AfterFunc(x.ctx, func() { s.Close() })() // ends that, too
	}
	for _, sp := range x.spans {
		for e, err := range from.entries(sp.from, sp.to) {
			if err == nil {
				err = x.entry(from, w, &e)
			} else if errors.Is(err, copal.ErrCorrupt) || errors.Is(err, copal.ErrTooLarge) {
				if err = x.bad("the entry of key", e.Key, err); err == nil {
					continue
				}
			}
			if x.ctx.Err() != nil {
				err = errInterrupted
			}
			if err != nil {
				return err
			}
			if n := w.State().Entries; n%1024 == 0 {
				bar.show(n, total)
			}
		}
	}
	return w.End()
}

// bad deals with what cannot be read: with --skip-bad it is told, counted and left out.
func (x *export) bad(what string, name []byte, err error) error {
	if place := (*copal.CorruptError)(nil); name != nil && (errors.As(err, &place) || errors.Is(err, copal.ErrTooLarge)) { // else it names the key
		err = fmt.Errorf("%s %s: %w", what, showKey(name), err)
	}
	if !x.skipBad {
		return fmt.Errorf("%w; --skip-bad leaves out what cannot be read", err)
	}
	x.result.Unreadable++
	x.report(err)
	return nil
}

// entry writes an entry and, of a collection, the elements.
func (x *export) entry(from source, w *ndjson.Writer, e *admin.Entry) error {
	if from.far == nil || e.Collection == "" {
		return x.writeEntry(from.at, w, e)
	}
	now, err := x.scratch.take(x.ctx, from.far, true, e)
	if err != nil {
		err = fmt.Errorf("key %q: %w", e.Key, err)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, copal.ErrCorrupt) {
			err = x.bad("", nil, err)
		}
		return err
	}
	defer now.Close()
	for e, err := range admin.Entries(now, e.Key, append(bytes.Clone(e.Key), 0)) {
		if err == nil && e.Elements > 0 {
			err = x.writeEntry(now, w, &e)
		}
		if err != nil || e.Elements > 0 {
			return err
		}
	}
	is, err := from.far.Find(e.Key) // it has gone meanwhile, or the key holds something else
	switch {
	case errors.Is(err, copal.ErrNotFound), err == nil && is.Collection == e.Collection:
		return nil
	case err != nil:
		return err
	}
	return x.entry(from, w, &is)
}

func (x *export) writeEntry(s *copal.Snapshot, w *ndjson.Writer, e *admin.Entry) error {
	if e.Collection != "" && x.skipBad {
		if err := x.countReadable(s, e); err != nil {
			return err
		}
	}
	if err := w.Entry(e); err != nil || e.Collection == "" {
		return err
	}
	for el, err := range admin.Elements(s, e.Key) {
		switch {
		case err == nil:
			err = w.Element(&el)
		case !errors.Is(err, copal.ErrCorrupt):
		case x.skipBad:
			continue
		default:
			err = x.bad("an element of", e.Key, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countReadable counts the elements of a collection that can be read: their number is written before them.
func (x *export) countReadable(s *copal.Snapshot, e *admin.Entry) error {
	e.Elements = 0
	for _, err := range admin.Elements(s, e.Key) {
		if errors.Is(err, copal.ErrCorrupt) {
			err = x.bad("an element of", e.Key, err)
		} else if err == nil {
			e.Elements++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errInterrupted ends a run that the user has had enough of.
var errInterrupted = errors.New("interrupted")

// writeMaps names the maps of which something may follow.
func (x *export) writeMaps(s source, w *ndjson.Writer) error {
	of, err := x.known(s)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		p := prefixSpan(copal.MapPrefix(name))
		asked := slices.ContainsFunc(x.spans, func(s span) bool {
			return compareEnds(s.to, p.from) > 0 && (p.to == nil || bytes.Compare(s.from, p.to) < 0)
		})
		if asked && of[name] {
			if err := w.Map(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// total is how many entries there are to come, -1 if that is not known.
func (x *export) total(s source) int64 {
	if s.far != nil {
		if x.of == "" && s.isMoment() { // else the server would go through all keys once more
			return s.far.Total()
		}
		return -1
	}
	if x.of == "" {
		return int64(s.raw().Len())
	}
	if len(x.prefixes) > 0 || x.after != nil {
		return -1
	}
	n := int64(0)
	for name, keys := range s.maps() {
		if slices.Contains(x.maps, name) {
			n += int64(keys)
		}
	}
	return n
}

// finish prints the counts.
func (x *export) finish(w *ndjson.Writer, err error, out io.Writer) error {
	if err != nil {
		return err
	}
	x.result.Entries, x.result.Bytes = w.State().Entries, w.State().Offset
	if x.json {
		return writeJSON(out, x.result)
	}
	if x.result.File != "-" {
		_, err = fmt.Fprintf(out, "exported %s, %s, to %s\n", countEntries(x.result.Entries), count(x.result.Bytes, "byte"), x.result.File)
	}
	return err
}
