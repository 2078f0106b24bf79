package table

import (
	"fmt"
	"os"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/store"
)

// recordBytes is the length of a record in these lines, the digits of its number and time
// aside, which grow as the log does.
const recordBytes = 128

// appendKeys is small, so that work of the store other than appending weighs little.
const appendKeys = 1000

// appendLines: the cost of framing, numbering, checking and keeping a record, beside handing as
// many bytes to the operating system. The log takes records from the store alone, so the store's
// index is in the figure.
func appendLines(s setting) []line {
	return []line{appendLine(s, 1), appendLine(s, many)}
}

func appendLine(s setting, workers int) line {
	return line{
		name:  fmt.Sprintf("append/%dB/%d", recordBytes, workers),
		group: "Append a record that survives kill -9, index included, against write(2) with O_APPEND",
		rows: []versus{{
			title: fmt.Sprintf("%d B records, %s", recordBytes, goroutines(workers)),
			ours:  "engine.Set", theirs: []string{"write(2)"}, metric: perOp, goal: atLeast(3).dreaming(6),
		}},
		setup: func(e *env) ([]side, error) {
			order := shuffled(appendKeys, s.ops/2)
			ours, err := storeSide(e, order, workers)
			if err != nil {
				return nil, err
			}
			theirs, err := writeSide(e, order, workers)
			return []side{ours, theirs}, err
		},
	}
}

// rawRecord makes key and value of a record of recordBytes.
func rawRecord(key string) (record.Head, []byte) {
	h := record.Head{Op: record.Set, Kind: record.Value, Seq: 0x12345, Time: 0x1234}
	bare := len(record.Salt(0).Append(nil, 0, &h, []byte(key), nil))
	return h, newBlob(recordBytes - bare - 1) // the length of the value has two digits, a length of 0 has one
}

func storeSide(e *env, order []int32, workers int) (side, error) {
	s, err := store.Open(e.path("store"), engine.Options{})
	if err != nil {
		return side{}, err
	}
	e.after(s.Close)
	keys := makeKeys(appendKeys)
	_, value := rawRecord(keys[0])
	w := workload{name: "engine.Set", workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		var buf []byte
		for _, i := range part {
			buf = append(buf[:0], keys[i]...)
			if err := s.Set(nil, buf, value, 0, engine.Process); err != nil {
				return err
			}
		}
		return nil
	}
	w.check = func(int) error {
		for _, i := range spots(order) {
			if got, err := s.Get(nil, []byte(keys[i])); err != nil || string(got.Value) != string(value) {
				return wrong(i, got.Value, value)
			}
		}
		return nil
	}
	return w.side(), nil
}

func writeSide(e *env, order []int32, workers int) (side, error) {
	f, err := os.OpenFile(e.path("plain"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return side{}, err
	}
	e.after(f.Close)
	key := makeKeys(1)[0]
	h, value := rawRecord(key)
	line := record.Salt(1).Append(nil, 0, &h, []byte(key), value)
	written := int64(0)
	w := workload{name: "write(2)", workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for range part {
			if _, err := f.Write(line); err != nil {
				return err
			}
		}
		return nil
	}
	w.check = func(int) error {
		written += int64(len(order) * len(line))
		if info, err := f.Stat(); err != nil || info.Size() != written {
			return fmt.Errorf("the file is not of %d bytes: %v, %w", written, info.Size(), err)
		}
		return nil
	}
	return w.side(), nil
}
