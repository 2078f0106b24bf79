package codec_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
)

func TestFlat(t *testing.T) {
	for _, c := range []struct {
		typ  reflect.Type
		want bool
	}{
		{reflect.TypeFor[int](), true},
		{reflect.TypeFor[string](), true},
		{reflect.TypeFor[complex64](), true},
		{reflect.TypeFor[time.Duration](), true},
		{reflect.TypeFor[json.Number](), true},
		{reflect.TypeFor[struct{}](), true},
		{reflect.TypeFor[person](), true},
		{reflect.TypeFor[account](), true},
		{reflect.TypeFor[[2]struct{ Base }](), true},
		{reflect.TypeFor[keyed](), true},
		{reflect.TypeFor[[0][]int](), true},
		{reflect.TypeFor[user](), false},
		{reflect.TypeFor[[]byte](), false},
		{reflect.TypeFor[*int](), false},
		{reflect.TypeFor[map[int]int](), false},
		{reflect.TypeFor[any](), false},
		{reflect.TypeFor[time.Time](), false},
		{reflect.TypeFor[netip.Addr](), false},
		{reflect.TypeFor[textOf](), false},
		{reflect.TypeFor[struct{ A, b int }](), false},
		{reflect.TypeFor[struct {
			_ int
			A int
		}](), false},
		{reflect.TypeFor[struct {
			A int `json:"-"`
		}](), false},
		{reflect.TypeFor[struct {
			A float64 `json:",omitempty"`
		}](), false},
		{reflect.TypeFor[struct {
			A int `copal:"-"`
		}](), false},
		{reflect.TypeFor[struct{ base }](), false},
		{reflect.TypeFor[[2]struct{ T time.Time }](), false},
	} {
		if got := codec.Flat(c.typ); got != c.want {
			t.Errorf("Flat(%v) = %v", c.typ, got)
		}
	}
}
