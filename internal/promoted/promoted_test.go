package promoted_test

import (
	"encoding"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/promoted"
)

type plain struct{ N int }

type value struct{ N int }

func (value) MarshalJSON() ([]byte, error) { return nil, nil }
func (value) MarshalText() ([]byte, error) { return []byte(time.Now().String()), nil }

type pointer struct{ N int }

var fixed = []byte("1")

func (*pointer) MarshalJSON() ([]byte, error) { return fixed, nil }
func (p *pointer) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &p.N)
}

type generic[T any] struct{ V T }

func (generic[T]) MarshalJSON() ([]byte, error) { return fixed, nil }

type (
	ofValue     struct{ value }
	ofPointer   struct{ pointer }
	viaPointer  struct{ *pointer }
	ofInterface struct{ json.Marshaler }
	ofTime      struct{ time.Time }
	second      struct {
		plain
		pointer
	}
	deep        struct{ ofPointer }
	shallowWins struct {
		deep
		value
	}
	ofGeneric           struct{ generic[int] }
	genericOuter[T any] struct {
		value
		V T
	}
)

type (
	circle struct {
		*around
		time.Time
	}
	around struct{ *circle }
)

type ownValue struct{ value }

func (ownValue) MarshalJSON() ([]byte, error) { return fixed, nil }

type ownPointer struct{ pointer }

func (*ownPointer) MarshalJSON() ([]byte, error) { return fixed, nil }

type ownOverInterface struct{ encoding.TextMarshaler }

func (o ownOverInterface) MarshalText() ([]byte, error) { return fixed, nil }

type ownThatCalls struct{ value }

func (o ownThatCalls) MarshalJSON() ([]byte, error) {
	b, err := o.value.MarshalJSON()
	return append(b, '1'), err
}

type ownGeneric[T any] struct {
	value
	V T
}

func (ownGeneric[T]) MarshalJSON() ([]byte, error) { return fixed, nil }

type ownGenericPointer[T any] struct {
	value
	V T
}

func (*ownGenericPointer[T]) MarshalJSON() ([]byte, error) { return fixed, nil }

func TestFrom(t *testing.T) {
	type test struct {
		typ    reflect.Type
		method string
		field  int
		ok     bool
	}
	for _, c := range []test{
		{reflect.TypeFor[int](), "MarshalJSON", 0, false},
		{reflect.TypeFor[plain](), "MarshalJSON", 0, false},
		{reflect.TypeFor[value](), "MarshalJSON", 0, false},
		{reflect.TypeFor[pointer](), "MarshalJSON", 0, false},
		{reflect.TypeFor[generic[int]](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ofValue](), "MarshalJSON", 0, true},
		{reflect.TypeFor[ofValue](), "MarshalText", 0, true},
		{reflect.TypeFor[ofPointer](), "MarshalJSON", 0, true},
		{reflect.TypeFor[ofPointer](), "UnmarshalJSON", 0, true},
		{reflect.TypeFor[ofPointer](), "MarshalText", 0, false},
		{reflect.TypeFor[viaPointer](), "MarshalJSON", 0, true},
		{reflect.TypeFor[viaPointer](), "UnmarshalJSON", 0, true},
		{reflect.TypeFor[ofInterface](), "MarshalJSON", 0, true},
		{reflect.TypeFor[ofTime](), "MarshalJSON", 0, true},
		{reflect.TypeFor[ofTime](), "UnmarshalText", 0, true},
		{reflect.TypeFor[second](), "MarshalJSON", 1, true},
		{reflect.TypeFor[deep](), "MarshalJSON", 0, true},
		{reflect.TypeFor[shallowWins](), "MarshalJSON", 1, true},
		{reflect.TypeFor[ofGeneric](), "MarshalJSON", 0, true},
		{reflect.TypeFor[genericOuter[int]](), "MarshalJSON", 0, true},
		{reflect.TypeFor[genericOuter[string]](), "MarshalText", 0, true},
		{reflect.TypeFor[struct{ time.Time }](), "MarshalJSON", 0, true},
		{reflect.TypeFor[circle](), "MarshalJSON", 1, true},
		{reflect.TypeFor[around](), "UnmarshalText", 0, true},
		{reflect.TypeFor[ownValue](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownValue](), "MarshalText", 0, true},
		{reflect.TypeFor[ownPointer](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownPointer](), "UnmarshalJSON", 0, true},
		{reflect.TypeFor[ownOverInterface](), "MarshalText", 0, false},
		{reflect.TypeFor[ownThatCalls](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownGeneric[int]](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownGeneric[string]](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownGenericPointer[string]](), "MarshalJSON", 0, false},
		{reflect.TypeFor[ownGenericPointer[string]](), "MarshalText", 0, true},
	} {
		field, ok := promoted.From(c.typ, c.method)
		if field != c.field || ok != c.ok {
			t.Errorf("From(%v, %s) = %d, %v, want %d, %v", c.typ, c.method, field, ok, c.field, c.ok)
		}
	}
}
