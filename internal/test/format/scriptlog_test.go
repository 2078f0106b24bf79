package format

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/record"
)

// logReader puts the lines of a log into words, segment after segment, as their names sort.
type logReader struct {
	header record.SegmentHeader
	newest map[string]uint64        // number of the record that counts, by kind and key
	groups map[uint64][]groupMember // whose commit is yet to come
}

// groupMember is a record of a group: the key with its kind, and the record's number.
type groupMember struct {
	name string
	seq  uint64
}

// logLine is a line of a segment's file, or the rest after the last whole one.
type logLine struct {
	text    string
	whole   bool
	meaning []string
}

func (l *logReader) read(text string) (lines []logLine) {
	h, n, err := record.ParseSegmentHeader([]byte(text))
	if err != nil {
		return []logLine{{text: text, meaning: []string{"not the head of a segment: " + err.Error()}}}
	}
	l.header = h
	lines = append(lines, logLine{text[:n], true, l.ofHeader()})
	for at := n; at < len(text); {
		h, head, err := record.Parse([]byte(text[at:]))
		if err == nil && h.Length(head) > len(text)-at {
			err = record.ErrShort
		}
		var key, value []byte
		if err == nil {
			n = h.Length(head)
			key, value, err = l.header.Salt.Verify([]byte(text[at:at+n]), int64(at), &h, head)
		}
		if err != nil {
			return append(lines, logLine{text: text[at:], meaning: []string{fmt.Sprintf("torn: %v, and does not count", err)}})
		}
		lines = append(lines, logLine{text[at : at+n], true, l.ofRecord(&h, string(key), string(value))})
		at += n
	}
	return lines
}

func (l *logReader) ofHeader() []string {
	h := &l.header
	meaning := []string{fmt.Sprintf("segment %s, whose times count from %s", h.ID, clockTime(h.Start))}
	if h.Through != 0 {
		meaning = append(meaning, fmt.Sprintf("compacted: stands for all from segment %x up to %x", h.ID.Order(), h.Through))
	}
	return meaning
}

func clockTime(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format("15:04:05") }

// ofRecord has the kind of the record and its effect on the store.
func (l *logReader) ofRecord(h *record.Head, key, value string) []string {
	at := "record " + number(h.Seq)
	if h.Time > 0 {
		at += fmt.Sprintf(", %v later", time.Duration(h.Time)*time.Millisecond)
	}
	if h.Group != 0 && h.Op != record.Commit {
		at += ", of group " + number(h.Group)
	}
	meaning := []string{at + ": " + words(h, key, value)}
	if h.Expiry != 0 && h.Op != record.Expire {
		meaning = append(meaning, "until "+clockTime(h.Expiry))
	}
	return append(meaning, l.effect(h, key)...)
}

// words describes the effect of the record.
func words(h *record.Head, key, value string) string {
	switch name := entryName(h.Kind, key); {
	case h.Op == record.Delete:
		return "delete " + name
	case h.Op == record.Expire:
		return name + " has expired"
	case h.Op == record.Commit:
		return fmt.Sprintf("commit of group %s, of %s members", number(h.Group), value)
	case h.Op != record.Set:
		return fmt.Sprintf("operation %c on %s", h.Op, name)
	case h.Kind == record.Meta:
		return fmt.Sprintf("%s is a collection, %s", name, value)
	case h.Kind == record.Element && strings.HasSuffix(key, ";"):
		return fmt.Sprintf("%s is %s", name, oneLine([]byte(value)))
	case h.Kind == record.System:
		return fmt.Sprintf("the store's note %s is %s", name, oneLine([]byte(value)))
	default:
		return fmt.Sprintf("set %s to %s", name, oneLine([]byte(value)))
	}
}

// entryName returns the name of the entry under a record's key.
func entryName(kind record.Kind, key string) string {
	id, sub, element := strings.Cut(key, ":")
	switch {
	case kind != record.Element:
		return oneLine([]byte(key))
	case !element:
		return "the owner of collection " + strings.TrimSuffix(key, ";")
	case len(sub) == 8 && !utf8.ValidString(sub): // a position in a list
		return fmt.Sprintf("element %x of collection %s", sub, id)
	default:
		return fmt.Sprintf("element %s of collection %s", oneLine([]byte(sub)), id)
	}
}

// effect says which earlier records count no more. It is silent about compacted segments: nothing
// of that is left there.
func (l *logReader) effect(h *record.Head, key string) []string {
	name := "user " + key // values and metas share their keys
	if h.Kind == record.Element {
		name = "element " + key
	}
	switch {
	case h.Op == record.Commit:
		members := l.groups[h.Group]
		delete(l.groups, h.Group)
		return append([]string{"its members count from here on"}, l.replace(members)...)
	case h.Group != 0:
		l.groups[h.Group] = append(l.groups[h.Group], groupMember{name, h.Seq})
		return nil
	default:
		return l.replace([]groupMember{{name, h.Seq}})
	}
}

// replace notes that these are the newest records of their keys.
func (l *logReader) replace(members []groupMember) []string {
	var gone []string
	for _, m := range members {
		if old := l.newest[m.name]; old != 0 && l.header.Through == 0 {
			gone = append(gone, number(old))
		}
		l.newest[m.name] = m.seq
	}
	if len(gone) == 0 {
		return nil
	}
	return []string{"in place of record " + strings.Join(gone, " and ")}
}

// number is hexadecimal, as numbers in the log are.
func number(n uint64) string {
	if n < 10 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%#x", n)
}
