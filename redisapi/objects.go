package redisapi

import (
	"fmt"
	"runtime/metrics"
)

func objectCommands() family {
	return known("generic", "Objects and memory",
		&command{name: "object", arity: -2, since: "2.2.3", summary: "Commands about what keys hold.", subs: []*command{
			{name: "encoding", arity: 3, how: looking, flags: readonly, keys: keys{2, 2, 1, nil}, run: (*call).objectEncoding, since: "2.2.3", summary: "Returns the encoding that Redis would use."},
			{name: "refcount", arity: 3, flags: readonly, keys: keys{2, 2, 1, nil}, run: (*call).objectNumber, since: "2.2.3", summary: "Returns 1."},
			{name: "idletime", arity: 3, flags: readonly, keys: keys{2, 2, 1, nil}, run: (*call).objectNumber, since: "2.2.3", summary: "Returns 0.", differs: "reads leave no trace"},
			{name: "freq", arity: 3, flags: readonly, keys: keys{2, 2, 1, nil}, run: (*call).objectFreq, since: "4.0.0", summary: "An error: reads leave no trace."},
		}},
		&command{name: "memory", arity: -2, since: "4.0.0", summary: "Commands about memory.", subs: []*command{
			{name: "usage", arity: -3, how: looking, flags: readonly, keys: keys{2, 2, 1, nil}, run: (*call).memoryUsage, since: "4.0.0", summary: "Returns the approximate size of a key in the log."},
			{name: "stats", arity: 2, run: (*call).memoryStats, since: "4.0.0", summary: "Returns figures about memory."},
			{name: "doctor", arity: 2, run: (*call).memoryDoctor, since: "4.0.0", summary: "Returns advice about memory."},
			{name: "purge", arity: 2, run: (*call).memoryPurge, since: "4.0.0", summary: "Accepted; no effect."},
		}},
	)
}

// The bounds up to which Redis stores collections compactly.
const (
	listpackEntries = 128
	listpackBytes   = 64
)

// objectEncoding names the form that Redis would use.
func (c *call) objectEncoding() error {
	kind, err := c.typeOrNull(c.args[2])
	if kind == "" {
		return err
	}
	name, err := c.encoding(kind, c.args[2])
	if err == nil {
		c.BulkString(name)
	}
	return err
}

func (c *call) encoding(kind string, key []byte) (string, error) {
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
		for value := range steps(c, c.raw.List(key).All()) {
			if total += len(value) + 8; total > 8<<10 {
				return "quicklist", nil
			}
		}
	case "hash":
		h := c.raw.Hash(key)
		if !small(h.Len(), func(yield func(int) bool) {
			for field, value := range steps2(c, h.All()) {
				if !yield(max(len(field), len(value))) {
					return
				}
			}
		}) {
			return "hashtable", nil
		}
	case "set":
		s := c.raw.StringSet(key)
		n, whole, long := s.Len(), true, false
		for member := range steps(c, s.All()) {
			if _, err := parseInt([]byte(member)); err != nil {
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
		z := c.raw.SortedSet(key)
		if !small(z.Len(), func(yield func(int) bool) {
			for member := range steps2(c, z.All()) {
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
		value, _, err := c.take(key)
		if err != nil {
			return "", err
		}
		switch _, notInt := parseInt(value); {
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
func (c *call) objectNumber() error {
	switch {
	case !c.raw.Has(c.args[2]):
		c.Null()
	case c.cmd.name == "refcount":
		c.Int(1)
	default:
		c.Int(0)
	}
	return nil
}

func (c *call) objectFreq() error {
	if !c.raw.Has(c.args[2]) {
		c.Null()
		return nil
	}
	return errorf("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
}

// recordBytes is about what a record has beside key and value, and its place in the index.
const recordBytes = 64

// memoryUsage looks at some elements of a collection, and at all with SAMPLES 0.
func (c *call) memoryUsage() error {
	samples := int64(5)
	switch {
	case len(c.args) == 3:
	case len(c.args) != 5 || !is(c.args[3], "SAMPLES"):
		return errSyntax
	default:
		n, err := parseInt(c.args[4])
		switch {
		case err != nil:
			return err
		case n < 0:
			return errSyntax
		}
		samples = n
	}
	key := c.args[2]
	kind, err := c.typeOrNull(key)
	if kind == "" {
		return err
	}
	total := int64(recordBytes + len(key))
	n, seen, bytes := 0, int64(0), int64(0)
	add := func(length int) bool {
		bytes += int64(length)
		seen++
		return samples == 0 || seen < samples
	}
	switch kind {
	case "hash":
		n = c.raw.Hash(key).Len()
		for field, value := range steps2(c, c.raw.Hash(key).All()) {
			if !add(len(field) + len(value)) {
				break
			}
		}
	case "list":
		n = c.raw.List(key).Len()
		for value := range steps(c, c.raw.List(key).All()) {
			if !add(len(value)) {
				break
			}
		}
	case "set":
		n = c.raw.StringSet(key).Len()
		for member := range steps(c, c.raw.StringSet(key).All()) {
			if !add(len(member)) {
				break
			}
		}
	case "zset":
		n = c.raw.SortedSet(key).Len()
		for member := range steps2(c, c.raw.SortedSet(key).All()) {
			if !add(2 * (len(member) + 8)) {
				break
			}
		}
	case "stream":
		n = c.raw.Stream(key).Len()
		for name, value := range steps2(c, c.raw.Stream(key).All()) {
			if !add(len(name) + len(value)) {
				break
			}
		}
	default:
		length, err := lengthOf(c, key)
		if err != nil && !missing(err) {
			return err
		}
		total += length
	}
	if seen > 0 {
		total += int64(n) * (bytes/seen + recordBytes)
	}
	c.Int(total)
	return nil
}

func (c *call) memoryStats() error {
	st := c.shared.db.Stats()
	figures := []struct {
		name string
		n    int64
	}{
		{"peak.allocated", int64(memory())}, {"total.allocated", int64(memory())}, {"keys.count", st.Keys},
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

func (c *call) memoryDoctor() error {
	c.Verbatim("The memory of this store is what Open was given, and what the clients use. INFO memory has figures.\n")
	return nil
}

func (c *call) memoryPurge() error {
	c.OK()
	return nil
}

func (c *call) debugObject() error {
	if err := c.debugging(); err != nil {
		return err
	}
	kind, err := c.raw.Type(c.args[2])
	switch {
	case missing(err):
		return errNoKey
	case err != nil:
		return err
	}
	name, err := c.encoding(kind, c.args[2])
	if err == nil {
		c.Simple(fmt.Sprintf("Value at:0x0 refcount:1 encoding:%s serializedlength:0 lru:0 lru_seconds_idle:0 type:%s", name, kinds[kind]))
	}
	return err
}

// memory is how many bytes the process has from the system, without mapped files.
func memory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}
