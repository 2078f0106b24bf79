package hybridlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestModel holds a log against a slice of bytes: random writes, reads, views, walks, trims, compactions,
// closings and deaths, each opening with other options.
func TestModel(t *testing.T) {
	seeds := uint64(60)
	if longTest() {
		seeds = 20_000
	}
	for seed := range seeds {
		m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 21)), mem: vfs.NewMem()}
		m.open()
		for range 120 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d: %v\n%v", seed, err, m.trail)
			}
		}
		mustClose(t, m.log)
	}
}

type model struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	log   *Log
	want  [][]byte
	all   []byte
	first int
	trail []string
}

func (m *model) open() {
	segment, ring := 4000+m.rng.Int64N(40_000), 4096*m.rng.Int64N(3)
	policy := SyncPolicy(m.rng.IntN(3))
	m.note("open %d %d %d", segment, ring, policy)
	m.log = mustOpen(m.t, m.mem, func(o *options) {
		o.segmentBytes, o.dataRing, o.policy, o.bypass = segment, ring, policy, 100+m.rng.IntN(2000)
		o.segmentSlots = 20 + m.rng.Int64N(300)
		o.random = m.rng.Uint64
	})
}

func (m *model) note(format string, args ...any) {
	m.trail = append(m.trail, fmt.Sprintf(format, args...))
}

func (m *model) step() error {
	switch m.rng.IntN(20) {
	default:
		p := text(len(m.want), 1+m.rng.IntN([]int{10, 500, 9000, 60_000}[m.rng.IntN(13)/4]))
		m.note("append %d", len(p))
		at, err := m.log.Append(p)
		if err != nil || int(at) != len(m.all) {
			return fmt.Errorf("Append: at %d, %w", at, err)
		}
		m.want, m.all = append(m.want, p), append(m.all, p...)
	case 0, 1, 2, 3:
		return m.read()
	case 4, 5:
		return m.view()
	case 6:
		m.note("compact")
		return m.log.Compact()
	case 7:
		return m.trim()
	case 8:
		m.note("close")
		if err := m.log.Close(); err != nil {
			return err
		}
		m.open()
	case 9:
		m.note("die")
		m.mem = m.mem.ProcessCrash()
		m.open()
	case 10:
		m.note("sync")
		return m.log.Sync()
	case 11:
		m.note("distrust")
		m.log.distrust()
	case 12:
		m.note("walk")
		return problem(m.log, m.want, Address(m.first))
	}
	return nil
}

func (m *model) read() error {
	off := m.first + m.rng.IntN(len(m.all)-m.first+5)
	p := make([]byte, m.rng.IntN([]int{5, 300, 10_000}[m.rng.IntN(3)]))
	m.note("read %d at %d", len(p), off)
	n, err := m.log.ReadAt(p, int64(off))
	want := m.all[min(off, len(m.all)):min(off+len(p), len(m.all))]
	if !bytes.Equal(p[:n], want) || (err == io.EOF) != (len(want) < len(p)) || err != nil && err != io.EOF {
		return fmt.Errorf("%d bytes of %d: %w", n, len(want), err)
	}
	return nil
}

func (m *model) view() error {
	if len(m.all) == m.first {
		return nil
	}
	off := m.first + m.rng.IntN(len(m.all)-m.first)
	n := 1 + m.rng.IntN(min(len(m.all)-off, 8000))
	m.note("view %d at %d", n, off)
	return m.log.View(Address(off), n, func(p []byte) error {
		if !bytes.Equal(p, m.all[off:off+n]) || cap(p) != n {
			return fmt.Errorf("View: %d bytes other than the written ones", len(p))
		}
		return nil
	})
}

func (m *model) trim() error {
	at := m.first + m.rng.IntN((len(m.all)-m.first)/3+1)
	m.note("trim %d", at)
	end := 0
	for _, p := range m.want {
		if end+len(p) > at {
			break
		}
		end += len(p)
	}
	m.first = max(m.first, end)
	if err := m.log.Trim(Address(at)); err != nil {
		return err
	}
	if int(m.log.First()) != m.first {
		return fmt.Errorf("it begins at %d, want %d", m.log.First(), m.first)
	}
	return nil
}
