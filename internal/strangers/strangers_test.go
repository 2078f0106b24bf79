package strangers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

func address(text string) net.Addr {
	if text == "" {
		return &net.UnixAddr{Net: "unix", Name: "@"}
	}
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))
}

func TestEnter(t *testing.T) {
	l := New(4)
	var ended []string
	enter := func(name, remote string) *Place {
		return l.Enter(address(remote), func() { ended = append(ended, name) })
	}
	a1, _, b1 := enter("a1", "10.0.0.1:1"), enter("a2", "10.0.0.1:2"), enter("b1", "10.0.0.2:1")
	enter("a3", "[::ffff:10.0.0.1]:3")
	enter("b2", "10.0.0.2:2")
	if !slices.Equal(ended, []string{"a1"}) {
		t.Fatal(ended)
	}
	a1.Leave() // its connection is closed by now
	enter("c1", "[2001:db8::1]:1")
	enter("c2", "[2001:db8::2]:1") // of the same network
	if len(ended) != 3 || l.free != 0 {
		t.Fatal(ended, l.free)
	}
	b1.Leave()
	b1.Leave()
	for i := range 20 {
		enter("", fmt.Sprintf("[2001:db8::%d]:7", i))
	}
	enter("unix", "")
	if n := len(l.places[netip.Prefix{}]); n != 1 || l.free != 0 {
		t.Fatal(l.places, l.free)
	}
	total := 0
	for _, list := range l.places {
		total += len(list)
	}
	if total != 4 {
		t.Fatal(l.places)
	}
}

// One address does not keep another out, whichever comes first.
func TestOneAddressOfMany(t *testing.T) {
	l := New(8)
	l.Enter(address("10.0.0.2:1"), func() { t.Error("the one of the other address was ended") })
	for i := range 1000 {
		l.Enter(address(fmt.Sprint("10.0.0.1:", i)), func() {})
	}
}

func TestKnown(t *testing.T) {
	if err := Known(context.Background(), "a"); err != nil {
		t.Error(err)
	}
	full := errors.New("full")
	ctx := With(context.Background(), func(user string) error {
		if user == "a" {
			return nil
		}
		return full
	})
	if a, b := Known(ctx, "a"), Known(ctx, "b"); a != nil || b != full {
		t.Error(a, b)
	}
}

func TestEnterBeside(t *testing.T) {
	l := New(3)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for range 1000 {
				l.Enter(address(fmt.Sprintf("10.0.0.%d:1", i)), func() {}).Leave()
			}
		})
	}
	work.Wait()
	if l.free != 3 || len(l.places) != 0 {
		t.Errorf("%+v", l)
	}
}
