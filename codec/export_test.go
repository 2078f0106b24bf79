package codec

import "reflect"

// ByPlan encodes the value that v points to by the plan of t alone. It reports false if
// the plan gives up, or there is none.
func ByPlan(t Type, v any) ([]byte, bool) {
	p := t.(*jsonType).plan
	if p == nil {
		return nil, false
	}
	return p.appendValue(nil, reflect.ValueOf(v).UnsafePointer(), 0)
}

// HasPlan reports whether values of t are encoded by a plan if they can be.
func HasPlan(t Type) bool { return t.(*jsonType).plan != nil }

// WithoutPlan returns t without its plan: it encodes values as if the plan had given up.
func WithoutPlan(t Type) Type {
	u := *t.(*jsonType)
	u.plan = nil
	return &u
}
