package importers

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A file of bbolt is a tree of pages, which the library trusts: a page that is its own child takes
// all memory, and one beyond the end of the file ends the process. So the tree is looked through
// before the library reads it.

// Flags and sizes of the format.
const (
	pageHeader   = 16
	pageElement  = 16
	branchPage   = 1
	leafPage     = 2
	bucketOfLeaf = 1
	bucketHeader = 16
	deepest      = 64 // levels of pages, and of buckets
)

// pages are those of a file that belong to the tree.
type pages struct {
	file io.ReaderAt
	size int64 // of the file
	page int64 // size of one
	seen map[uint64]bool
}

func (p *pages) check(id uint64, depth int) error {
	if id < 2 || id >= uint64(p.size/p.page) || p.seen[id] || depth > deepest {
		return fmt.Errorf("its pages are no tree, at page %d, so it is damaged", id)
	}
	p.seen[id] = true
	at := int64(id) * p.page
	head := make([]byte, pageHeader)
	if _, err := p.file.ReadAt(head, at); err != nil {
		return err
	}
	length := (int64(binary.NativeEndian.Uint32(head[12:])) + 1) * p.page
	if length > p.size-at {
		return fmt.Errorf("page %d goes beyond the end, so it is damaged", id)
	}
	for more := id + 1; more < id+uint64(length/p.page); more++ {
		if p.seen[more] {
			return fmt.Errorf("its pages are no tree, at page %d, so it is damaged", more)
		}
		p.seen[more] = true
	}
	return p.elements(io.NewSectionReader(p.file, at, length), head, depth)
}

// elements checks those of a page, or of a bucket that is kept within one.
func (p *pages) elements(page *io.SectionReader, head []byte, depth int) error {
	flags, count := binary.NativeEndian.Uint16(head[8:]), int64(binary.NativeEndian.Uint16(head[10:]))
	if flags != branchPage && flags != leafPage || pageHeader+count*pageElement > page.Size() {
		return fmt.Errorf("a page is none of the tree, so it is damaged")
	}
	list := make([]byte, count*pageElement)
	if _, err := page.ReadAt(list, pageHeader); err != nil && count > 0 {
		return err
	}
	for i := range count {
		e := list[i*pageElement:][:pageElement]
		if flags == branchPage {
			begin := pageHeader + i*pageElement + int64(binary.NativeEndian.Uint32(e))
			if begin+int64(binary.NativeEndian.Uint32(e[4:])) > page.Size() {
				return fmt.Errorf("a key goes beyond its page, so it is damaged")
			}
			if err := p.check(binary.NativeEndian.Uint64(e[8:]), depth+1); err != nil {
				return err
			}
			continue
		}
		begin := pageHeader + i*pageElement + int64(binary.NativeEndian.Uint32(e[4:])) + int64(binary.NativeEndian.Uint32(e[8:]))
		length := int64(binary.NativeEndian.Uint32(e[12:]))
		if begin+length > page.Size() {
			return fmt.Errorf("an entry goes beyond its page, so it is damaged")
		}
		if binary.NativeEndian.Uint32(e)&bucketOfLeaf == 0 {
			continue
		}
		if err := p.bucket(io.NewSectionReader(page, begin, length), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket, whose value names its page or is one.
func (p *pages) bucket(value *io.SectionReader, depth int) error {
	root := make([]byte, bucketHeader)
	if _, err := value.ReadAt(root, 0); err != nil || depth > deepest {
		return fmt.Errorf("a bucket has no page, so it is damaged")
	}
	if id := binary.NativeEndian.Uint64(root); id != 0 {
		return p.check(id, depth)
	}
	inline := io.NewSectionReader(value, bucketHeader, value.Size()-bucketHeader)
	head := make([]byte, pageHeader)
	if _, err := inline.ReadAt(head, 0); err != nil {
		return fmt.Errorf("a bucket has no page, so it is damaged")
	}
	return p.elements(inline, head, depth)
}
