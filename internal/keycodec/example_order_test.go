package keycodec

import "testing"

// TestExampleOfAKey: the example for a key in another spelling is a key of the order.
func TestExampleOfAKey(t *testing.T) {
	for _, c := range []struct{ order, key, want string }{
		{"int", "07", "7"}, {"int", "+7", "42"}, {"int", "seven", "42"}, {"int", "", "42"}, {"int", "-0", "42"},
		{"float", "2.50", "2.5"}, {"float", "1e3", "1000"}, {"float", "x", "2.5"},
		{"bool", "yes", "true"},
		{"time", "1970-01-01T06:45:00Z", "1970-01-01T06:45:00.000000000Z"}, {"time", "1970-01-01T07:45:00.5+01:00", "1970-01-01T06:45:00.500000000Z"},
		{"time", "2026-11-21T06:45:00", "2026-11-21T06:45:00.000000000Z"}, {"time", "yesterday", "2026-11-21T06:45:00.000000000Z"},
		{"hex", "zz", "9f8a"},
		{"[3]int", "1,2", "42,42,42"}, {"[3]int", "1,02,3", "1,2,3"},
		{"struct{bytes;int}", "kitchen", "alice/42"}, {"struct{bytes;int}", "kitchen/07", "kitchen/7"}, {"struct{bytes;time}", "kitchen/now", "alice/2026-11-21T06:45:00.000000000Z"},
	} {
		o, ok := OrderNamed(c.order)
		if !ok {
			t.Fatalf("there is no order %s", c.order)
		}
		if o.Holds(c.key) {
			t.Errorf("%s: %q is a key", c.order, c.key)
		}
		got := o.Example(c.key)
		if got != c.want && c.want != "" || !o.Holds(got) {
			t.Errorf("%s: the example for %q is %q, want %q", c.order, c.key, got, c.want)
		}
	}
}
