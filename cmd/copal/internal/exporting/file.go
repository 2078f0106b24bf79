package exporting

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/ndjson"
	"github.com/copaldb/copal/internal/vfs"
)

// An export to a file is written to FILE.part, synced, and renamed. An interrupted one stays there,
// in whole lines, and can be continued.

// toFile exports to a file that appears when it is whole. A device or a named pipe is written to
// directly: a rename would put a file in its place.
func (x *Export) toFile(from cli.Source, file string) (*ndjson.Writer, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return x.through(from, file, info)
	}
	part := file + cli.PartSuffix
	at, err := x.prepare(file, part, from)
	if err != nil {
		return nil, err
	}
	flag := os.O_RDWR
	if !cli.Exists(part) {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := vfs.OpenRegular(part, flag, x.FileMode.Bits())
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	w, err := x.begin(f, out, at, from)
	if err == nil {
		err = x.write(from, w)
	}
	err = errors.Join(err, out.Flush())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil && w != nil {
		return nil, fmt.Errorf("%w; %s has %s, and --continue goes on there", err, part, cli.CountEntries(w.State().Entries))
	}
	cli.SyncDir(cli.ParentOf(file))
	return w, err
}

// through exports to an existing target that is no regular file.
func (x *Export) through(from cli.Source, path string, info os.FileInfo) (*ndjson.Writer, error) {
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if x.Again {
		return nil, fmt.Errorf("%s cannot be continued: it is no regular file", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	w, err := ndjson.NewWriter(out, x.head(from))
	if err == nil {
		err = x.write(from, w)
	}
	if err == nil {
		err = out.Flush()
	}
	return w, errors.Join(err, f.Close())
}

// prepare refuses to replace a file without --force. It renames a file to continue to part, and
// returns the state from which it goes on.
func (x *Export) prepare(file, part string, s cli.Source) (at ndjson.State, err error) {
	havePart, have := cli.Exists(part), cli.Exists(file)
	switch {
	case x.force && havePart:
		return at, os.Remove(part)
	case x.Again && havePart:
		return x.resumable(part, s)
	case x.Again && have:
		if at, err = x.resumable(file, s); err == nil {
			err = os.Rename(file, part)
		}
		return at, err
	case x.Again:
		return at, fmt.Errorf("there is nothing to continue: neither %s nor %s", part, file)
	case havePart:
		return at, fmt.Errorf("%s is there, of an export that was cut: --continue goes on with it, --force begins anew", part)
	case have && !x.force:
		return at, fmt.Errorf("%s is there: --force replaces it", file)
	}
	return at, nil
}

// begin writes the first line, or that with which an export goes on.
func (x *Export) begin(f *os.File, out *bufio.Writer, at ndjson.State, s cli.Source) (*ndjson.Writer, error) {
	if err := f.Truncate(at.Offset); err != nil {
		return nil, err
	}
	if _, err := f.Seek(at.Offset, io.SeekStart); err != nil {
		return nil, err
	}
	if at.Lines == 0 {
		return ndjson.NewWriter(out, x.head(s))
	}
	x.Result.Continued = true
	if at.Entries > 0 {
		x.spans = cli.SpansAfter(x.spans, at.Key)
	}
	return ndjson.ContinueWriter(out, at, x.head(s))
}

// resumable reads the valid part of a file, which must be an export of the same keys. Only its last
// line may be invalid.
func (x *Export) resumable(path string, s cli.Source) (at ndjson.State, err error) {
	f, err := vfs.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return at, err
	}
	defer f.Close()
	if at, err = x.whole(f); err == nil && at.Lines > 0 {
		err = x.fits(path, at, s)
	}
	return at, err
}

// whole reads a file up to the end of its valid part.
func (x *Export) whole(f *os.File) (ndjson.State, error) {
	info, err := f.Stat()
	if err != nil {
		return ndjson.State{}, err
	}
	bar := x.NewProgress("reading what is there")
	defer bar.Clear()
	r := ndjson.NewReader(f)
	for n := 0; ; n++ {
		l, err := r.Next()
		var bad *ndjson.LineError
		switch {
		case err == io.EOF, errors.As(err, &bad) && bad.Last:
			return r.State(), nil
		case err != nil:
			return r.State(), fmt.Errorf("%s cannot be continued: %w", f.Name(), err)
		case x.Ctx.Err() != nil:
			return r.State(), cli.ErrInterrupted
		case l.Kind == ndjson.End:
			return r.State(), fmt.Errorf("%s is whole: there is nothing to continue", f.Name())
		}
		if n%1024 == 0 {
			bar.Show(r.Offset(), info.Size())
		}
	}
}

// fits refuses to append to an export of something else.
func (x *Export) fits(path string, at ndjson.State, s cli.Source) error {
	switch {
	case at.Head.From != x.of:
		return cli.UsageError(fmt.Sprintf("%s was begun for other keys: %s; now it is %s", path, cmp.Or(at.Head.From, "all"), cmp.Or(x.of, "all")))
	case !s.IsMoment() && !x.mixed:
		return fmt.Errorf("the server does not tell whether it has changed since %s was begun: with --mixed what follows is what it has now", path)
	}
	if now, _ := s.Moment(); at.Head.Seq != now && !x.mixed {
		return fmt.Errorf("the store has changed since %s was begun, from number %d to %d: with --mixed what follows is the store as it is now", path, at.Head.Seq, now)
	}
	return nil
}
