package types

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// Types of keys. celsius and friends have the kinds of the predeclared types; uuid
// writes itself by value and version by pointer.
type (
	celsius  float32
	userName string
	portNo   uint16
	uuid     [16]byte
	version  struct{ major, minor int }

	widths struct {
		A int8
		B int16
		C int32
		D int64
		E uint8
		F uint16
		G uint32
		H uint
		I uintptr
	}

	parts struct {
		Port  portNo
		Wait  time.Duration
		Heat  celsius
		Is    bool
		Three [3]int
		Two   [2]float64
		Both  [2]bool
		From  [2]version
		None  [0]byte
	}
)

func (u uuid) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}

func (u *uuid) UnmarshalText(text []byte) error {
	_, err := hex.Decode(u[:], bytes.ReplaceAll(text, []byte("-"), nil))
	return err
}

func (v *version) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "v%d.%d", v.major, v.minor), nil
}

func (v *version) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "v%d.%d", &v.major, &v.minor)
	return err
}

// TestKeyTypes stores distinct keys of every kind and finds them again, in each life of the store.
// Each type of keys takes the compiler a map of its own, so most kinds are parts of one; keycodec
// has them one by one.
func TestKeyTypes(t *testing.T) {
	keys(t, "", "alice", "a b", "Zürich", "日本", "🙂")
	keys[userName](t, "alice", "bob")
	keys[int](t, 0, 1, -1, math.MinInt, math.MaxInt)
	keys(t, widths{}, widths{1, 1, 1, 1, 1, 1, 1, 1, 1}, widths{-1, -1, -1, -1, 0, 0, 0, 0, 0},
		widths{math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, 0, 0, 0, 0, 1 << 31},
		widths{math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxInt64, math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxUint, 0})
	keys[uint64](t, 0, 1, math.MaxUint64)
	keys[float64](t, 0, 0.1, -1.5, 1e21, math.Pi, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1))
	keys(t, parts{}, parts{Port: 80, Wait: time.Second, Heat: 0.1, Is: true}, parts{Port: 65535, Wait: -time.Hour, Heat: -273.15},
		parts{Heat: math.MaxFloat32}, parts{Heat: math.SmallestNonzeroFloat32}, parts{Heat: celsius(math.Inf(1))},
		parts{Three: [3]int{1, -2, 3}}, parts{Two: [2]float64{0.5, math.Inf(-1)}}, parts{Both: [2]bool{true, false}}, parts{Both: [2]bool{false, true}},
		parts{From: [2]version{{1, 26}, {12, 6}}})
	keys[[16]byte](t, [16]byte{}, [16]byte{1, 2, 3, 15: 255}, [16]byte([]byte("0123456789abcdef")))
	keys[uuid](t, uuid{}, uuid{1, 2, 15: 0xfe})
	keys[version](t, version{}, version{1, 26}, version{12, 6})
	keys[[2]string](t, [2]string{}, [2]string{"a", "b"}, [2]string{"a/b", ""}, [2]string{"", "a%2fb"})
	keys[netip.Addr](t, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1"))
	utc := time.Date(2024, 2, 29, 12, 30, 0, 123456789, time.UTC)
	keys[time.Time](t, utc, utc.Add(1), time.Time{}, time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))
}

func keys[K comparable](t *testing.T, list ...K) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", list[0]), func(t *testing.T) {
		write := func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[K, int](t, db, "m")
			for i, k := range list {
				kit.MustSet(t, m, k, i)
			}
			gone := list[0]
			kit.MustSet(t, m, gone, -1)
			if existed, err := m.Delete(gone); !existed || err != nil {
				t.Errorf("Delete(%v) = %v, %v", gone, existed, err)
			}
			kit.WantAbsent(t, m, gone)
			kit.MustSet(t, m, gone, 0)
		}
		kit.Lives(t, write, func(t *testing.T, db *copal.DB) { wantKeys(t, kit.MapOf[K, int](t, db, "m"), list) })
	})
}

// wantKeys checks that m holds the keys of list, each with its place there, and nothing else.
func wantKeys[K comparable](t *testing.T, m *copal.Map[K, int], list []K) {
	t.Helper()
	if m.Len() != len(list) {
		t.Errorf("Len = %d, want %d", m.Len(), len(list))
	}
	for i, k := range list {
		kit.WantLoad(t, m, k, i)
	}
	seen := map[int]bool{}
	for k, i := range m.All() {
		if i < 0 || i >= len(list) || list[i] != k || seen[i] {
			t.Errorf("All yields %v: %v", k, i)
		}
		seen[i] = true
	}
	left := map[K]bool{}
	for _, k := range list {
		left[k] = true
	}
	for k := range m.Keys() {
		if !left[k] {
			t.Errorf("Keys yields %v", k)
		}
		delete(left, k)
	}
	if len(seen) != len(list) || len(left) > 0 {
		t.Errorf("All yields %d of %d entries, Keys leaves out %v", len(seen), len(list), left)
	}
}

// Trap: NaN, ±Inf, -0, time zones: kept, or refused at once, never stored wrong.
func TestTrapKeysEqualInTheStore(t *testing.T) {
	t.Run("NaN is one key", func(t *testing.T) {
		quiet, odd := math.NaN(), math.Float64frombits(0x7ff8dead00000001)
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[float64, string](t, db, "m")
			kit.MustSet(t, m, quiet, "first")
			kit.MustSet(t, m, odd, "second")
		}, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[float64, string](t, db, "m")
			kit.WantLoad(t, m, quiet, "second")
			if m.Len() != 1 {
				t.Errorf("Len = %d, want 1", m.Len())
			}
			for k := range m.Keys() {
				if !math.IsNaN(k) {
					t.Errorf("Keys yields %v, want NaN", k)
				}
			}
		})
	})
	t.Run("-0 is 0", func(t *testing.T) {
		minus := math.Copysign(0, -1)
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[float64, string](t, db, "m")
			kit.MustSet(t, m, minus, "first")
			kit.MustSet(t, m, 0, "second")
			a := kit.MapOf[[2]float32, string](t, db, "a")
			kit.MustSet(t, a, [2]float32{float32(minus), 1}, "array")
		}, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[float64, string](t, db, "m")
			kit.WantLoad(t, m, minus, "second")
			if m.Len() != 1 {
				t.Errorf("Len = %d, want 1", m.Len())
			}
			kit.WantLoad(t, kit.MapOf[[2]float32, string](t, db, "a"), [2]float32{0, 1}, "array")
		})
	})
	t.Run("times of one instant are one key", func(t *testing.T) {
		noon := time.Date(2024, 7, 1, 12, 0, 0, 5, time.UTC)
		tokyo, odd := time.FixedZone("JST", 9*3600), time.FixedZone("LMT", 1172)
		kit.Lives(t, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[time.Time, string](t, db, "m")
			kit.MustSet(t, m, noon.In(tokyo), "first")
			kit.MustSet(t, m, noon.In(odd), "second")
			kit.MustSet(t, m, noon.Add(1), "other")
		}, func(t *testing.T, db *copal.DB) {
			m := kit.MapOf[time.Time, string](t, db, "m")
			kit.WantLoad(t, m, noon, "second")
			kit.WantLoad(t, m, noon.In(tokyo), "second")
			if m.Len() != 2 {
				t.Errorf("Len = %d, want 2", m.Len())
			}
			for k, v := range m.All() {
				if want := map[string]time.Time{"second": noon, "other": noon.Add(1)}[v]; k != want {
					t.Errorf("All yields %v: %s, want the key %v, in UTC", k, v, want)
				}
			}
		})
	})
	t.Run("the clock reading of a time is no part of it", func(t *testing.T) {
		m := kit.MapOf[time.Time, string](t, kit.Memory(t), "m")
		now := time.Now()
		kit.MustSet(t, m, now, "now")
		kit.WantLoad(t, m, now.Round(0), "now")
	})
}

// halfText writes itself and cannot be read, shyText the other way round.
type (
	halfText int
	shyText  int
)

func (halfText) MarshalText() ([]byte, error) { return nil, nil }
func (*shyText) UnmarshalText(_ []byte) error { return nil }

// Keys are refused at OpenMap when their type has no canonical bytes. Package keycodec has all such
// types.
func TestKeyTypesRefused(t *testing.T) {
	db := kit.Memory(t)
	refused[any](t, db)
	refused[halfText](t, db)
	refused[shyText](t, db)
	if s := db.Stats(); s.Records != 0 {
		t.Errorf("refused maps left %d records in the log", s.Records)
	}
	kit.MapOf[string, int](t, db, "m") // the name is still free
}

func refused[K comparable](t *testing.T, db *copal.DB) {
	t.Helper()
	m, err := copal.OpenMap[K, int](db, "m")
	if m != nil || !errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap with keys of type %T = %v, %v, want ErrType", *new(K), m, err)
	} else if !strings.Contains(err.Error(), `"m"`) {
		t.Errorf("the error does not name the map: %v", err)
	}
}

type fussyText int

func (k fussyText) MarshalText() ([]byte, error) {
	if k < 0 {
		return nil, errors.New("negative")
	}
	return fmt.Appendf(nil, "%d", int(k)), nil
}

func (k *fussyText) UnmarshalText(text []byte) error {
	_, err := fmt.Sscan(string(text), (*int)(k))
	return err
}

// A key that its type allows and its encoding does not is refused by every method.
func TestKeysRefused(t *testing.T) {
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	times := kit.MapOf[time.Time, int](t, db, "times")
	far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	kit.WantErr(t, "Set", times.Set(far, 1), copal.ErrType)
	kit.WantErr(t, "Set", times.Set(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), 1), copal.ErrType)
	texts := kit.MapOf[fussyText, int](t, db, "texts")
	kit.WantErr(t, "Set", texts.Set(-1, 1), copal.ErrType)
	kit.WantErr(t, "SetFSync", texts.SetFSync(-1, 1), copal.ErrType)
	_, err := texts.Load(-1)
	kit.WantErr(t, "Load", err, copal.ErrType)
	_, err = texts.Delete(-1)
	kit.WantErr(t, "Delete", err, copal.ErrType)
	_, err = texts.DeleteFSync(-1)
	kit.WantErr(t, "DeleteFSync", err, copal.ErrType)
	handled.WantTaken(t, 0, nil)
	if v, ok := texts.Get(-1); ok {
		t.Errorf("Get = %v", v)
	}
	handled.WantTaken(t, 1, copal.ErrType)
	if times.Len() != 0 || texts.Len() != 0 || db.Stats().Records != 0 {
		t.Error("a refused key left something")
	}
}

// hostileKeys look like parts of the format, other keys, and other maps.
var hostileKeys = []string{
	"", " ", "  ", "\n", "\r\n", "\x00", "\x00\x00", ":", "::", "%", "%3a", "%%", "a:b", "a%3ab",
	"a\nb", "a\n", "\na", "a\x00b", "a\x00", "\xff", "\xff\xfe\xfd", "a\xc3", "é", "e\u0301", "\u2028", "\ufffd",
	"map:m", "m:", "m:m:", "\"", "\\", "{}", "null", "{a}b", "{", "}", "*", "?", "[a]", "\t", "\x7f", "\x1b[2J",
	"e11530df St 0 0 3c 3ef 1 13 2 json map[string]int\n",
	"\n05c9af08 Sv 0 0 30 3e9 4 3 blob",
	"copal log 1 segment 1 salt 5f3a91c2d4e5f607 start 19a8c3d2e10 store 77aa00000000beef 5dfd7fdf\n",
	"MANIFEST", "../../etc/passwd", "/", ".", "..", "LOCK",
}

// Trap: keys with newlines, NULs, colons, %, invalid UTF-8, the empty key: records
// forged by a key, keys merged.
func TestTrapHostileKeys(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, int](t, db, "m")
		for i, k := range hostileKeys {
			kit.MustSet(t, m, k, i)
		}
	}, func(t *testing.T, db *copal.DB) {
		wantKeys(t, kit.MapOf[string, int](t, db, "m"), hostileKeys)
		for i, k := range hostileKeys {
			kit.WantRaw(t, db, "m:"+k, fmt.Sprint(i))
		}
		if _, err := copal.Load[string](db, "blob"); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("a key forged a record: %v", err)
		}
	})
}

// Trap: the same as raw keys, which no map name precedes.
func TestTrapHostileRawKeys(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		for i, k := range hostileKeys {
			kit.MustPut(t, db, k, fmt.Sprint(i))
		}
	}, func(t *testing.T, db *copal.DB) {
		for i, k := range hostileKeys {
			kit.WantRaw(t, db, k, fmt.Sprint(i))
		}
		if all := kit.ScanAll(db); len(all) != len(hostileKeys) {
			t.Errorf("Scan yields %d entries, want %d", len(all), len(hostileKeys))
		}
	})
}

var hostileNames = []string{
	"m", "m2", "m:", "m:m", "m%3a", "m%3am", ":", "::", "%", "%3a", "%25", " ", "  ", "a b", "\n", "a\nb", "\x00", "\t", "\x7f",
	"\xff", "\xff\xfe", "é", "e\u0301", "Größe", "日本", "🙂", "{user}", "*", "..", "/", "a/b", "\\", "MANIFEST", "map", "map:m",
	strings.Repeat("long", 10000),
}

// Trap: a map name with the separator; a map that loads empty. Two maps whose names
// are prefixes of each other, before or after escaping, share nothing.
func TestTrapHostileMapNames(t *testing.T) {
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		for i, name := range hostileNames {
			m := kit.MapOf[string, int](t, db, name)
			kit.MustSet(t, m, "", i)
			kit.MustSet(t, m, "m:", i)
			kit.MustSet(t, m, fmt.Sprint("only ", i), i)
			kit.MustSet(t, m, "gone", i)
			if existed, err := m.Delete("gone"); !existed || err != nil {
				t.Errorf("Delete in map %.40q = %v, %v", name, existed, err)
			}
		}
	}, func(t *testing.T, db *copal.DB) {
		for i, name := range hostileNames {
			m := kit.MapOf[string, int](t, db, name)
			if m.Len() != 3 {
				t.Errorf("map %.40q has %d entries, want 3", name, m.Len())
			}
			for _, key := range []string{"", "m:", fmt.Sprint("only ", i)} {
				kit.WantLoad(t, m, key, i)
			}
			for k, v := range m.All() {
				if v != i {
					t.Errorf("map %.40q yields %.40q: %d, want %d", name, k, v, i)
				}
			}
		}
	})
}

func TestMapNeedsAName(t *testing.T) {
	_, err := copal.OpenMap[string, int](kit.Memory(t), "")
	if err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("OpenMap with no name: %v", err)
	}
}

const maxKey = 64 << 10

// A key may have 64 KiB, the map's name and the colon included.
func TestKeySize(t *testing.T) {
	longest := strings.Repeat("k", maxKey-2)
	kit.Lives(t, func(t *testing.T, db *copal.DB) {
		m := kit.MapOf[string, int](t, db, "m")
		kit.MustSet(t, m, longest, 1)
		kit.MustPut(t, db, "r"+longest+"k", "2")
		before := db.Stats()
		kit.WantErr(t, "Set", m.Set(longest+"k", 1), copal.ErrTooLarge)
		kit.WantErr(t, "SetFSync", m.SetFSync(longest+"k", 1), copal.ErrTooLarge)
		kit.WantErr(t, "Put", db.Raw().Set([]byte("r"+longest+"kk"), nil), copal.ErrTooLarge)
		kit.WantErr(t, "copal.Set", copal.Set(db, "r"+longest+"kk", 1), copal.ErrTooLarge)
		_, err := m.Delete(longest + "k")
		kit.WantErr(t, "Delete", err, copal.ErrTooLarge)
		if after := db.Stats(); after != before {
			t.Errorf("a refused key changed %+v to %+v", before, after)
		}
	}, func(t *testing.T, db *copal.DB) {
		kit.WantLoad(t, kit.MapOf[string, int](t, db, "m"), longest, 1)
		kit.WantRaw(t, db, "r"+longest+"k", "2")
		if n := db.Stats().Keys; n != 2 {
			t.Errorf("%d keys, want 2", n)
		}
	})
}

// A map name that leaves no room for a key opens, and refuses every Set.
func TestMapNameSize(t *testing.T) {
	for n := maxKey - 6; n <= maxKey+6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			name := strings.Repeat("n", n)
			var set error
			kit.Lives(t, func(t *testing.T, db *copal.DB) {
				kit.MustSet(t, kit.MapOf[string, int](t, db, "other"), "key", 1)
				m, err := copal.OpenMap[string, int](db, name)
				if err != nil {
					kit.WantErr(t, "OpenMap", err, copal.ErrTooLarge)
					set = err
					return
				}
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("Set of the empty key in a map with a name of %d bytes panics: %v", n, r)
					}
				}()
				if set = m.Set("", 7); set != nil || n >= maxKey {
					kit.WantErr(t, "Set", set, copal.ErrTooLarge)
				}
			}, func(t *testing.T, db *copal.DB) {
				kit.WantLoad(t, kit.MapOf[string, int](t, db, "other"), "key", 1)
				if set == nil {
					kit.WantLoad(t, kit.MapOf[string, int](t, db, name), "", 7)
				}
			})
		})
	}
}
