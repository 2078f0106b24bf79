package serving

import "testing"

func TestConnectionsWithin(t *testing.T) {
	for _, x := range []struct{ limit, open, protocols, wanted, want int }{
		{1 << 20, 20, 2, 10_000, 10_000},
		{1024, 20, 2, 10_000, 484},
		{1024, 20, 1, 100, 100},
		{64, 20, 1, 10_000, 8},
		{64, 20, 2, 10_000, 4},
		{20, 19, 2, 10_000, 1},
	} {
		if got := connectionsWithin(x.limit, x.open, x.protocols, x.wanted); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
}
