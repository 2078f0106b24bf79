package exporting

import (
	"bufio"
	"bytes"
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
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/scratch"
	"github.com/copaldb/copal/internal/ndjson"
)

// Flags has the flags of export.
type Flags struct {
	maps, prefixes []string
	after          string
	quoted         bool
	seq            bool
	Again, mixed   bool
	force          bool
	skipBad        bool
	json           bool
	at             *cli.MomentFlag
}

// Bind gives a command the flags.
func (f *Flags) Bind(a *cli.App, cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.maps, "map", nil, "export only this map; may be given several times")
	cmd.Flags().StringArrayVar(&f.prefixes, "prefix", nil, "export only keys that begin with this; may be given several times")
	cmd.Flags().StringVar(&f.after, "after", "", "begin behind this key")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, cli.QuotedUsage)
	cmd.Flags().BoolVar(&f.seq, "seq", false, "say of each entry its sequence number, and when it was written")
	cmd.Flags().BoolVar(&f.Again, "continue", false, "go on with an export that was cut")
	cmd.Flags().BoolVar(&f.mixed, "mixed", false, "with --continue, also when the store has changed meanwhile")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace a FILE that is there")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "leave out entries and elements that cannot be read, and say so")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the counts as JSON; on standard error if the entries are on standard output")
	f.at = a.AddAt(cmd, "export")
	cli.Exclude(cmd, "continue", "force")
}

// Run exports a store. The arguments are those of the command.
func (f *Flags) Run(a *cli.App, args []string, after bool, out *bufio.Writer) error {
	x := &Export{App: a, Flags: *f}
	if err := x.Parse(after); err != nil {
		return err
	}
	file := "-"
	if len(args) == 2 {
		file = args[1]
	}
	if file == "-" && (f.Again || f.force) {
		return cli.UsageError("--continue and --force are for a FILE")
	}
	if cli.IsServer(args[0]) && f.seq {
		return cli.UsageError("--seq needs a directory: a server does not tell the sequence numbers of entries")
	}
	defer a.CatchSignals()()
	return f.at.View(args[0], func(s cli.Source) error { return x.Run(s, file, out) })
}

// Export is one run of the command.
type Export struct {
	*cli.App
	Flags
	after []byte     // the key
	spans []cli.Span // the selected ranges, in order, without overlaps
	of    string     // the same in words, "" for all

	scratch scratch.Scratch // for collections of a server

	Result Result
}

// Result has the counts of an export, as --json prints them.
type Result struct {
	File       string `json:"file"`
	Entries    int64  `json:"entries"`
	Bytes      int64  `json:"bytes"`
	Seq        uint64 `json:"seq"`
	Continued  bool   `json:"continued,omitempty"`
	Unreadable int64  `json:"unreadable,omitempty"`
}

// Parse makes spans of keys from the flags. after reports whether --after was given, which may be
// the empty key.
func (x *Export) Parse(after bool) error {
	var words []string
	for _, name := range x.maps {
		if name == "" {
			return cli.UsageError("a map has a name")
		}
		x.spans = append(x.spans, cli.PrefixSpan(copal.MapPrefix(name)))
		words = append(words, "map "+strconv.Quote(name))
	}
	prefixes, err := cli.ParseKeys(x.prefixes, x.quoted)
	if err != nil {
		return err
	}
	for _, p := range prefixes {
		x.spans = append(x.spans, cli.PrefixSpan(p))
		words = append(words, "prefix "+strconv.Quote(string(p)))
	}
	if x.spans == nil {
		x.spans = []cli.Span{{}}
	}
	x.spans = cli.Disjoint(x.spans)
	if after {
		if x.after, err = cli.ParseKey(x.Flags.after, x.quoted); err != nil {
			return err
		}
		x.spans = cli.SpansAfter(x.spans, x.after)
		words = append(words, "after "+strconv.Quote(string(x.after)))
	}
	slices.Sort(words)
	x.of = strings.Join(words, ", ")
	return nil
}

// Run exports a source to a file, "-" for out.
func (x *Export) Run(from cli.Source, file string, out *bufio.Writer) error {
	if from.At != nil {
		return x.runIn(from, file, out)
	}
	return x.ReadWhole(from.DB, func(from cli.Source) error { return x.runIn(from, file, out) })
}

func (x *Export) runIn(from cli.Source, file string, out *bufio.Writer) error {
	defer func() { x.scratch.Close() }()
	if err := x.haveMaps(from); err != nil {
		return err
	}
	if !from.IsMoment() {
		x.Note("the server has no snapshots: what is written to it meanwhile may be in the export or not")
	}
	x.Result.File = file
	x.Result.Seq, _ = from.Moment()
	if file == "-" {
		w, err := ndjson.NewWriter(out, x.head(from))
		if err == nil {
			err = x.write(from, w)
		}
		return x.finish(w, err, x.Stderr)
	}
	w, err := x.toFile(from, file)
	return x.finish(w, err, out)
}

func (x *Export) head(s cli.Source) ndjson.Head {
	seq, at := s.Moment()
	return ndjson.Head{Seq: seq, Time: at, From: x.of}
}

// haveMaps refuses the name of a map that does not exist: it is mistyped.
func (x *Export) haveMaps(s cli.Source) error {
	known, err := x.known(s)
	if err != nil {
		return err
	}
	for _, name := range x.maps {
		if _, is := known[name]; !is && !cli.HaveKeys(s, copal.MapPrefix(name)) {
			return cli.NotFound{Key: "map " + cli.ShowKey([]byte(name)), Text: cli.UnknownMap(s, copal.MapPrefix(name))}
		}
	}
	return nil
}

// known returns the maps of the store, and whether they have entries.
func (x *Export) known(s cli.Source) (map[string]bool, error) {
	names := map[string]bool{}
	if s.Far == nil {
		for name, n := range s.Maps() {
			names[name] = n > 0
		}
		return names, nil
	}
	list, err := s.Far.Maps(x.Ctx)
	for _, name := range list {
		names[name] = cli.HaveKeys(s, copal.MapPrefix(name))
	}
	return names, err
}

// write writes the selected entries, and the last line.
func (x *Export) write(from cli.Source, w *ndjson.Writer) error {
	w.Seq = x.seq
	if w.State().Entries == 0 {
		if err := x.writeMaps(from, w); err != nil {
			return err
		}
	}
	bar, total := x.NewCount("exporting", "entries"), x.total(from)
	bar.Show(w.State().Entries, total) // before the keys are sorted, which may take long
	defer bar.Clear()
	if s := from.At; s != nil {
		defer context.AfterFunc(x.Ctx, func() { s.Close() })() // ends that, too
	}
	for _, sp := range x.spans {
		for e, err := range from.Entries(sp.From, sp.To) {
			if err == nil {
				err = x.entry(from, w, &e)
			} else if errors.Is(err, copal.ErrCorrupt) || errors.Is(err, copal.ErrTooLarge) {
				if err = x.bad("the entry of key", e.Key, err); err == nil {
					continue
				}
			}
			if x.Ctx.Err() != nil {
				err = cli.ErrInterrupted
			}
			if err != nil {
				return err
			}
			if n := w.State().Entries; n%1024 == 0 {
				bar.Show(n, total)
			}
		}
	}
	return w.End()
}

// bad returns the error of an unreadable entry or element. With --skip-bad it reports and counts
// it, and returns nil.
func (x *Export) bad(what string, name []byte, err error) error {
	if place := (*copal.CorruptError)(nil); name != nil && (errors.As(err, &place) || errors.Is(err, copal.ErrTooLarge)) { // else it names the key
		err = fmt.Errorf("%s %s: %w", what, cli.ShowKey(name), err)
	}
	if !x.skipBad {
		return fmt.Errorf("%w; --skip-bad leaves out what cannot be read", err)
	}
	x.Result.Unreadable++
	x.Report(err)
	return nil
}

// entry writes an entry and, of a collection, the elements.
func (x *Export) entry(from cli.Source, w *ndjson.Writer, e *admin.Entry) error {
	if from.Far == nil || e.Collection == "" {
		return x.writeEntry(from.At, w, e)
	}
	now, err := x.scratch.Take(x.Ctx, from.Far, true, e)
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
	is, err := from.Far.Find(e.Key) // it has gone meanwhile, or the key holds something else
	switch {
	case errors.Is(err, copal.ErrNotFound), err == nil && is.Collection == e.Collection:
		return nil
	case err != nil:
		return err
	}
	return x.entry(from, w, &is)
}

func (x *Export) writeEntry(s *copal.Snapshot, w *ndjson.Writer, e *admin.Entry) error {
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

// countReadable counts the readable elements of a collection: their number is written before them.
func (x *Export) countReadable(s *copal.Snapshot, e *admin.Entry) error {
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

// writeMaps names the maps that may have entries in the export.
func (x *Export) writeMaps(s cli.Source, w *ndjson.Writer) error {
	of, err := x.known(s)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		p := cli.PrefixSpan(copal.MapPrefix(name))
		asked := slices.ContainsFunc(x.spans, func(s cli.Span) bool {
			return cli.CompareEnds(s.To, p.From) > 0 && (p.To == nil || bytes.Compare(s.From, p.To) < 0)
		})
		if asked && of[name] {
			if err := w.Map(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// total returns the number of entries to export, -1 if it is unknown.
func (x *Export) total(s cli.Source) int64 {
	if s.Far != nil {
		if x.of == "" && s.IsMoment() { // else the server would go through all keys once more
			return s.Far.Total()
		}
		return -1
	}
	if x.of == "" {
		return int64(s.Raw().Len())
	}
	if len(x.prefixes) > 0 || x.after != nil {
		return -1
	}
	n := int64(0)
	for name, keys := range s.Maps() {
		if slices.Contains(x.maps, name) {
			n += int64(keys)
		}
	}
	return n
}

// finish prints the counts.
func (x *Export) finish(w *ndjson.Writer, err error, out io.Writer) error {
	if err != nil {
		return err
	}
	x.Result.Entries, x.Result.Bytes = w.State().Entries, w.State().Offset
	if x.json {
		return cli.WriteJSON(out, x.Result)
	}
	if x.Result.File != "-" {
		_, err = fmt.Fprintf(out, "exported %s, %s, to %s\n", cli.CountEntries(x.Result.Entries), cli.Count(x.Result.Bytes, "byte"), x.Result.File)
	}
	return err
}
