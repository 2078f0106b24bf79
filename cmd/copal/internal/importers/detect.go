package importers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// HeadBytes is the length of the beginning of a file that Detect needs.
const HeadBytes = 32 << 10

// ErrUnknown is a format that was not recognized.
var ErrUnknown = errors.New("it cannot be told what it is")

// ErrStore is a store.
var ErrStore = errors.New("it is a store: 'copal export' writes what import reads, and 'copal backup' copies a store as it is")

// Detect recognizes the format by the first bytes of a file and by its name, "" for a stream.
func Detect(path string, head []byte) (Format, error) {
	name := ""
	switch {
	case bytes.HasPrefix(skipMark(head), []byte(`{"copal":`)):
		name = "copal"
	case bytes.HasPrefix(head, []byte(persistHeader)):
		name = "go-persist"
	case bytes.HasPrefix(head, []byte("REDIS0")) || bytes.HasPrefix(head, []byte("VALKEY0")):
		name = "rdb"
	case isBbolt(head):
		name = "bbolt"
	case isBunt(head):
		name = "buntdb"
	case bytes.HasPrefix(bytes.TrimLeft(skipMark(head), " \t\r\n"), []byte("{")):
		name = "jsonl"
	case strings.EqualFold(filepath.Ext(path), ".csv") || strings.EqualFold(filepath.Ext(path), ".tsv"):
		name = "csv"
	}
	f, ok := Named(name)
	if !ok {
		return f, ErrUnknown
	}
	return f, nil
}

// DetectDir does the same as Detect for a directory.
func DetectDir(dir string) (Format, error) {
	dir, err := files.Path(dir)
	if err != nil {
		return Format{}, err
	}
	for _, sign := range []string{"KEYREGISTRY", "DISCARD"} {
		if _, err := os.Stat(filepath.Join(dir, sign)); err == nil {
			f, _ := Named("badger")
			return f, nil
		}
	}
	if b, _, err := files.Read(vfs.OS(), filepath.Join(dir, "MANIFEST"), 64); err == nil && bytes.HasPrefix(b, []byte("copal manifest ")) {
		return Format{}, ErrStore
	}
	if _, err := os.Stat(dir); err != nil {
		return Format{}, err
	}
	return Format{}, fmt.Errorf("%w, for a directory", ErrUnknown)
}

// isBbolt looks for the meta pages: a page has 16 bytes in front, and one of the first two is
// whole.
func isBbolt(head []byte) bool {
	const magic, front = 0xED0CDAED, 16
	for _, page := range []int{0, 4 << 10, 8 << 10, 16 << 10} {
		if at := page + front; len(head) >= at+4 && (binary.LittleEndian.Uint32(head[at:]) == magic || binary.BigEndian.Uint32(head[at:]) == magic) {
			return true
		}
	}
	return false
}

// isBunt looks for the first command.
func isBunt(head []byte) bool {
	if len(head) < 4 || head[0] != '*' {
		return false
	}
	_, rest, ok := bytes.Cut(head, []byte("\r\n$"))
	return ok && len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'
}

const byteOrderMark = "\xef\xbb\xbf"

// skipMark skips the mark with which some programs begin UTF-8.
func skipMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte(byteOrderMark)) }
