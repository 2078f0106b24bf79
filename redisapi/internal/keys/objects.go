package keys

import (
	"fmt"
	"runtime/metrics"

	"github.com/copaldb/copal/redisapi/internal/command"
)

func Objects() command.Family {
	return command.NewFamily("generic", "Objects and memory",
		&command.Row{Name: "object", Arity: -2, Since: "2.2.3", Summary: "Commands about what keys hold.", Subs: []*command.Row{
			{Name: "encoding", Arity: 3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, IsSilent: true, Run: objectEncoding, Since: "2.2.3", Summary: "Returns the encoding that Redis would use."},
			{Name: "refcount", Arity: 3, Flags: command.ReadOnly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, IsSilent: true, Run: objectNumber, Since: "2.2.3", Summary: "Returns 1."},
			{Name: "idletime", Arity: 3, Flags: command.ReadOnly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, IsSilent: true, Run: objectNumber, Since: "2.2.3", Summary: "Returns 0.", Differs: "reads leave no trace"},
			{Name: "freq", Arity: 3, Flags: command.ReadOnly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, IsSilent: true, Run: objectFreq, Since: "4.0.0", Summary: "An error: reads leave no trace."},
		}},
		&command.Row{Name: "memory", Arity: -2, Since: "4.0.0", Summary: "Commands about memory.", Subs: []*command.Row{
			{Name: "usage", Arity: -3, How: command.Looking, Flags: command.ReadOnly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, IsSilent: true, Run: memoryUsage, Since: "4.0.0", Summary: "Returns the approximate size of a key in the log."},
			{Name: "stats", Arity: 2, Run: memoryStats, Since: "4.0.0", Summary: "Returns figures about memory."},
			{Name: "doctor", Arity: 2, Run: memoryDoctor, Since: "4.0.0", Summary: "Returns advice about memory."},
			{Name: "purge", Arity: 2, Run: memoryPurge, Since: "4.0.0", Summary: "Accepted; no effect."},
		}},
	)
}

// The bounds up to which Redis stores collections compactly.
const (
	listpackEntries = 128
	listpackBytes   = 64
)

// objectEncoding names the form that Redis would use.
func objectEncoding(c *command.Call) error {
	kind, err := typeOrNull(c, c.Args[2])
	if kind == "" {
		return err
	}
	name, err := encoding(c, kind, c.Args[2])
	if err == nil {
		c.BulkString(name)
	}
	return err
}

func encoding(c *command.Call, kind string, key []byte) (string, error) {
	small := func(n int, texts func(yield func(int) bool)) bool {
		if n > listpackEntries {
			return false
		}
		for length := range texts {
			if length > listpackBytes {
				return false
			}
		}
		return true
	}
	switch kind {
	case "list":
		total := 0
		for value := range command.Steps(c, c.Store.List(key).All()) {
			if total += len(value) + 8; total > 8<<10 {
				return "quicklist", nil
			}
		}
	case "hash":
		h := c.Store.Hash(key)
		if !small(h.Len(), func(yield func(int) bool) {
			for field, value := range command.Steps2(c, h.All()) {
				if !yield(max(len(field), len(value))) {
					return
				}
			}
		}) {
			return "hashtable", nil
		}
	case "set":
		s := c.Store.StringSet(key)
		n, whole, long := s.Len(), true, false
		for member := range command.Steps(c, s.All()) {
			if _, err := command.ParseInt([]byte(member)); err != nil {
				whole = false
			}
			if long = long || len(member) > listpackBytes; !whole && long {
				break
			}
		}
		switch {
		case whole && n <= 512:
			return "intset", nil
		case n > listpackEntries || long:
			return "hashtable", nil
		}
	case "zset":
		z := c.Store.SortedSet(key)
		if !small(z.Len(), func(yield func(int) bool) {
			for member := range command.Steps2(c, z.All()) {
				if !yield(len(member)) {
					return
				}
			}
		}) {
			return "skiplist", nil
		}
	case "stream":
		return "stream", nil
	default:
		value, _, err := c.Take(key)
		if err != nil {
			return "", err
		}
		switch _, notInt := command.ParseInt(value); {
		case notInt == nil:
			return "int", nil
		case len(value) <= 44:
			return "embstr", nil
		}
		return "raw", nil
	}
	return "listpack", nil
}

// objectNumber is OBJECT REFCOUNT and OBJECT IDLETIME.
func objectNumber(c *command.Call) error {
	switch {
	case !c.Store.Has(c.Args[2]):
		c.Null()
	case c.Row.Name == "refcount":
		c.Int(1)
	default:
		c.Int(0)
	}
	return nil
}

func objectFreq(c *command.Call) error {
	if !c.Store.Has(c.Args[2]) {
		c.Null()
		return nil
	}
	return command.Errorf("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
}

// RecordBytes is about the size of a record beside key and value, and its place in the index.
const RecordBytes = 64

// memoryUsage looks at some elements of a collection, and at all with SAMPLES 0.
func memoryUsage(c *command.Call) error {
	samples := int64(5)
	switch {
	case len(c.Args) == 3:
	case len(c.Args) != 5 || !command.Is(c.Args[3], "SAMPLES"):
		return command.ErrSyntax
	default:
		n, err := command.ParseInt(c.Args[4])
		switch {
		case err != nil:
			return err
		case n < 0:
			return command.ErrSyntax
		}
		samples = n
	}
	key := c.Args[2]
	kind, err := typeOrNull(c, key)
	if kind == "" {
		return err
	}
	total := int64(RecordBytes + len(key))
	n, seen, bytes := 0, int64(0), int64(0)
	add := func(length int) bool {
		bytes += int64(length)
		seen++
		return samples == 0 || seen < samples
	}
	switch kind {
	case "hash":
		n = c.Store.Hash(key).Len()
		for field, value := range command.Steps2(c, c.Store.Hash(key).All()) {
			if !add(len(field) + len(value)) {
				break
			}
		}
	case "list":
		n = c.Store.List(key).Len()
		for value := range command.Steps(c, c.Store.List(key).All()) {
			if !add(len(value)) {
				break
			}
		}
	case "set":
		n = c.Store.StringSet(key).Len()
		for member := range command.Steps(c, c.Store.StringSet(key).All()) {
			if !add(len(member)) {
				break
			}
		}
	case "zset":
		n = c.Store.SortedSet(key).Len()
		for member := range command.Steps2(c, c.Store.SortedSet(key).All()) {
			if !add(2 * (len(member) + 8)) {
				break
			}
		}
	case "stream":
		n = c.Store.Stream(key).Len()
		for name, value := range command.Steps2(c, c.Store.Stream(key).All()) {
			if !add(len(name) + len(value)) {
				break
			}
		}
	default:
		length, err := command.LengthOf(c, key)
		if err != nil && !command.IsMissing(err) {
			return err
		}
		total += length
	}
	if seen > 0 {
		total += int64(n) * (bytes/seen + RecordBytes)
	}
	c.Int(total)
	return nil
}

func memoryStats(c *command.Call) error {
	st := c.Shared.DB.Stats()
	figures := []struct {
		name string
		n    int64
	}{
		{"peak.allocated", int64(ProcessMemory())}, {"total.allocated", int64(ProcessMemory())}, {"keys.count", st.Keys},
		{"dataset.bytes", st.CacheBytes + st.IndexBytes + st.SnapshotBytes}, {"copal.cache", st.CacheBytes}, {"copal.index", st.IndexBytes},
		{"copal.snapshots", st.SnapshotBytes},
	}
	c.Map(len(figures))
	for _, f := range figures {
		c.BulkString(f.name)
		c.Int(f.n)
	}
	return nil
}

func memoryDoctor(c *command.Call) error {
	c.Verbatim("The memory of this store is what Open was given, and what the clients use. INFO memory has figures.\n")
	return nil
}

func memoryPurge(c *command.Call) error {
	c.OK()
	return nil
}

func DebugObject(c *command.Call) error {
	if err := c.Debugging(); err != nil {
		return err
	}
	kind, err := c.Store.Type(c.Args[2])
	switch {
	case command.IsMissing(err):
		return command.ErrNoKey
	case err != nil:
		return err
	}
	name, err := encoding(c, kind, c.Args[2])
	if err == nil {
		c.Simple(fmt.Sprintf("Value at:0x0 refcount:1 encoding:%s serializedlength:0 lru:0 lru_seconds_idle:0 type:%s", name, command.TypeNames[kind]))
	}
	return err
}

// ProcessMemory is how many bytes the process has from the system, without mapped files.
func ProcessMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}
