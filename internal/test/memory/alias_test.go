package memory

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader gets the value of the log, from memory or read again: the caller may
// change the value that it stored, and those that Load and Update returned.

type (
	flatKind struct {
		N    int
		Text string
		F    float64
	}
	sliceKind struct {
		N     int
		List  []int
		Lists [2][]int
		Three [3]int
	}
	timeKind struct {
		At time.Time
	}
	hiddenKind struct {
		N      int
		secret int
	}
	innerKind    struct{ List []string }
	embeddedKind struct {
		innerKindPublic
		N int
	}
	innerKindPublic struct{ Inner innerKind }
	taggedKind      struct {
		N    int
		Skip int `json:"-" copal:"-"`
	}
)

// ownCodec is JSON under a name of its own, so that copal knows nothing of it.
type ownCodec struct{ codec.Codec }

func (ownCodec) Name() string { return "own" }

var aliasCodecs = []codec.Codec{codec.JSON, codec.Binary, ownCodec{codec.JSON}}

func TestAliasing(t *testing.T) {
	alias(t, func() flatKind { return flatKind{1, "text", 1.5} }, func(v *flatKind) { v.N, v.Text = 2, "changed" })
	alias(t, func() string { return "text" }, func(v *string) { *v = "changed" })
	alias(t, func() []byte { return []byte("text") }, func(v *[]byte) { (*v)[0] = 'X' })
	alias(t, func() map[string]int { return map[string]int{"a": 1} }, func(v *map[string]int) { (*v)["a"] = 7; (*v)["b"] = 8 })
	alias(t, func() *int { n := 1; return &n }, func(v **int) { **v = 7 })
	alias(t, func() sliceKind {
		return sliceKind{1, []int{1, 2}, [2][]int{{1}, {2}}, [3]int{1, 2, 3}}
	}, func(v *sliceKind) {
		v.List[0], v.N, v.Lists[0][0], v.Three[0] = 7, 2, 7, 7
		v.List = append(v.List[:1], 8, 9)
	})
	alias(t, func() timeKind { return timeKind{time.Now()} }, func(v *timeKind) { v.At = v.At.Add(time.Hour) })
	alias(t, func() hiddenKind { return hiddenKind{1, 5} }, func(v *hiddenKind) { v.N, v.secret = 7, 8 })
	alias(t, func() embeddedKind {
		return embeddedKind{innerKindPublic{innerKind{[]string{"a"}}}, 1}
	}, func(v *embeddedKind) { v.Inner.List[0] = "changed"; v.N = 7 })
	alias(t, func() taggedKind { return taggedKind{1, 2} }, func(v *taggedKind) { v.N, v.Skip = 7, 8 })
}

// alias tries every codec that takes V with every way to store, and changes the stored value and
// those that reads return.
func alias[V any](t *testing.T, make func() V, change func(*V)) {
	for _, c := range aliasCodecs {
		for _, memory := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%v/%s/memory %d", reflect.TypeFor[V](), c.Name(), memory), func(t *testing.T) {
				fsys := vfs.NewMem()
				db := kit.OpenOn(t, fsys, copal.WithMaxMemory(memory))
				m, err := copal.OpenMap[string, V](db, "m", copal.WithCodec(c))
				if err != nil {
					t.Skip(err)
				}
				ways := aliasWays(m)
				for name, store := range ways {
					v := make()
					if err := store(name, &v); err != nil {
						t.Fatal(name, err)
					}
					change(&v)
				}
				crashed := fsys.ProcessCrash() // without asynchronous values
				if err := db.Sync(); err != nil {
					t.Fatal(err)
				}
				again := kit.MapOf[string, V](t, kit.OpenOn(t, fsys.ProcessCrash(), copal.WithMaxMemory(memory)), "m", copal.WithCodec(c))
				first := kit.MapOf[string, V](t, kit.OpenOn(t, crashed), "m", copal.WithCodec(c))
				if first.Len() > again.Len() || again.Len() != len(ways) {
					t.Errorf("%d entries after a crash, %d when synced, want %d", first.Len(), again.Len(), len(ways))
				}
				for name := range ways {
					want, err := again.Load(name)
					if err != nil {
						t.Fatal(name, err)
					}
					checkAlias(t, m, name, want, change)
				}
			})
		}
	}
}

func aliasWays[V any](m *copal.Map[string, V]) map[string]func(key string, v *V) error {
	update := func(by func(string, func(*copal.Entry[V]) error) (V, bool, error)) func(string, *V) error {
		return func(key string, v *V) error {
			got, _, err := by(key, func(u *copal.Entry[V]) error { u.Set(*v); return nil })
			*v = got // it is the caller's, too
			return err
		}
	}
	return map[string]func(key string, v *V) error{
		"Set":         func(key string, v *V) error { return m.Set(key, *v) },
		"SetAsync":    func(key string, v *V) error { return m.SetAsync(key, *v) },
		"SetFSync":    func(key string, v *V) error { return m.SetFSync(key, *v) },
		"Update":      update(m.Update),
		"UpdateAsync": update(m.UpdateAsync),
		"SetAsync twice": func(key string, v *V) error {
			return errors.Join(m.SetAsync(key, *v), m.SetAsync(key, *v))
		},
	}
}

// checkAlias reads the entry in every way, and changes each value that is the reader's own. The
// entry stays want.
func checkAlias[V any](t *testing.T, m *copal.Map[string, V], key string, want V, change func(*V)) {
	t.Helper()
	is := func(how string, v V, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("stored by %s, %s gives %+v, %v, want %+v", key, how, v, err, want)
		}
	}
	for range 3 {
		v, err := m.Load(key)
		is("Load", v, err)
		change(&v)
		g, _ := m.Get(key)
		is("Get", g, nil)
		for k, v := range m.All() {
			if k == key {
				is("All", v, nil)
			}
		}
		v, _, err = m.Update(key, func(u *copal.Entry[V]) error {
			is("Update", u.Value, nil)
			change(&u.Value)
			u.Cancel()

			return nil
		})
		is("Update, cancelled,", v, err)
		change(&v)
	}
	for _, update := range []func(string, func(*copal.Entry[V]) error) (V, bool, error){m.UpdateAsync, m.UpdateFSync} {
		v, _, err := update(key, func(u *copal.Entry[V]) error { change(&u.Value); u.Cancel(); return nil })
		is("a cancelled update", v, err)
	}
	v, err := m.Load(key)
	is("Load in the end", v, err)
}
