package migrating

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
)

// Flags has the flags of copy.
type Flags struct {
	Cutover, Replace, Delete, JSON bool
}

// CopyStore copies the store src into dst.
func CopyStore(a *cli.App, src, dst string, f *Flags, out *bufio.Writer) error {
	name, err := nameOf(src)
	if err != nil {
		return err
	}
	if other, err := nameOf(dst); err != nil || other == name {
		return errors.Join(err, cli.UsageError("SRC and DST are one store"))
	}
	a.Own = seglog.Unfinished{Work: seglog.CopyWork, Source: name}
	return a.View(patient(src), func(from *copal.DB) error {
		return a.UpdateOrCreate(patient(dst), func(to *copal.DB) error {
			dir := dst
			src, dst := cli.Redacted(src), cli.Redacted(dst)
			c := copying.New(from, to)
			c.Name, c.Replace, c.Delete = name, f.Replace, f.Delete
			err := a.NoteNew(dir, to, a.Own)
			if err == nil {
				err = runCopy(a, c, src, f)
			}
			if err == nil {
				err = a.EndNew(dir, to, a.Own)
			}
			switch {
			case a.Ctx.Err() != nil:
				return fmt.Errorf("%w; %s has what was copied, and the same command goes on there", cli.ErrInterrupted, dst)
			case errors.Is(err, copying.ErrNotEmpty):
				return fmt.Errorf("%s has entries, and none of them is of an unfinished copy of %s; with --replace what is not in %s is deleted", dst, src, src)
			case errors.Is(err, copying.ErrWritten):
				return fmt.Errorf("%s is still written to, so %s is not equal to it; the same command goes on there", src, dst)
			case errors.As(err, new(*copying.DifferentError)):
				return fmt.Errorf("%w\nsomebody else has written to %s, or a disk is damaged; the same command replaces what differs, and with --replace deletes what %s alone has", err, dst, dst)
			case errors.As(err, new(*copying.OtherError)):
				return fmt.Errorf("%w; the entries are still in %s, and --delete deletes them", err, dst)
			case errors.Is(err, copying.ErrOwn):
				return fmt.Errorf("%w; with --replace it is deleted", err)
			case err != nil:
				return err
			}
			if n := c.Report().Contents; n > 0 {
				a.Note(fmt.Sprintf("the content types of %s were not copied: %s keeps none", cli.CountEntries(n), dst))
			}
			return f.tell(c.Report(), src, dst, out)
		})
	})
}

// nameOf returns the name of a store by which a resumed copy recognizes it.
func nameOf(store string) (string, error) {
	switch {
	case store == "":
		return "", cli.ErrNoDir
	case cli.IsServer(store): // others can read the name in the destination
		address, query, _ := strings.Cut(cli.Redacted(store), "?")
		said, _ := url.ParseQuery(query)
		said.Del("timeout") // the same store is reached with another one
		said.Del("cache")
		if len(said) > 0 {
			address += "?" + said.Encode()
		}
		return address, nil
	}
	return files.Path(store)
}

// patient adds to a server without a timeout one for long values. It returns a directory unchanged.
func patient(store string) string {
	_, query, found := strings.Cut(store, "?")
	switch said, _ := url.ParseQuery(query); { // an invalid query is an error of opening the store
	case !cli.IsServer(store) || said.Has("timeout"):
		return store
	case found:
		return store + "&timeout=1m"
	}
	return store + "?timeout=1m"
}

func runCopy(a *cli.App, c *copying.Copy, src string, f *Flags) error {
	bar := a.NewCount("copying", "entries")
	defer bar.Clear()
	c.Show, c.Tell = bar.Show, bar.Describe
	if err := c.CatchUp(a.Ctx); err != nil || !f.Cutover {
		return err
	}
	bar.Clear()
	how := "copied"
	if r := c.Report(); r.Compared {
		how = fmt.Sprintf("caught up at number %d", r.Seq)
	}
	a.Note(fmt.Sprintf("%s, and going on. Stop what writes to %s, then press Enter", how, src))
	confirmed, confirm := context.WithCancel(context.Background())
	in := a.Input()
	asked := make(chan error, 1)
	go func() {
		defer confirm()
		_, err := bufio.NewReader(in).ReadString('\n')
		asked <- err
	}()
	err := c.Follow(a.Ctx, confirmed)
	if err != nil {
		return err
	}
	if err := <-asked; err == io.EOF {
		return errors.New("standard input has ended before a line said that nobody writes any more; what was copied is there, and the same command goes on")
	} else if err != nil {
		return fmt.Errorf("standard input cannot be read: %w", err)
	}
	return c.Finish(a.Ctx)
}

// tell prints the result.
func (f *Flags) tell(r copying.Report, src, dst string, out *bufio.Writer) error {
	if f.JSON {
		var entries, contents *int64 // null where nothing was compared
		var sum *string
		if r.Compared {
			text := r.Sum.String()
			entries, sum, contents = &r.Entries, &text, &r.Contents
		}
		return cli.WriteJSON(out, struct {
			From     string  `json:"from"`
			To       string  `json:"to"`
			Seq      uint64  `json:"seq"`
			Entries  *int64  `json:"entries"`
			Written  int64   `json:"written"`
			Deleted  int64   `json:"deleted"`
			Resumed  bool    `json:"resumed"`
			Walks    int64   `json:"walks"`
			Rounds   int64   `json:"rounds"`
			Sum      *string `json:"sum"`
			Equal    bool    `json:"equal"`
			Contents *int64  `json:"contentTypesLeftOut"`
		}{src, dst, r.Seq, entries, r.Written, r.Deleted, r.Resumed, r.Walks, r.Rounds, sum, f.Cutover, contents})
	}
	if !r.Compared {
		_, err := fmt.Fprintf(out, "%s: copied, not compared: %d set and %d deleted by this run\n", dst, r.Written, r.Deleted)
		return err
	}
	how := fmt.Sprintf("has what %s had at number %d", src, r.Seq)
	if f.Cutover {
		how = "is equal to " + src
	}
	_, err := fmt.Fprintf(out, "%s %s: %s, %d set and %d deleted by this run; checksum %.16s\n", dst, how, cli.CountEntries(r.Entries), r.Written, r.Deleted, r.Sum)
	return err
}
