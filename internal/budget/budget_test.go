package budget

import (
	"errors"
	"sync"
	"testing"
)

func TestTake(t *testing.T) {
	b := New(100)
	gone := map[string]int{}
	open := func(name, user string) *Account { return b.Open(user, func() { gone[name]++ }) }
	check := func(what string, err, want error, used int64) {
		t.Helper()
		if !errors.Is(err, want) || b.Used() != used {
			t.Fatalf("%s: %v, with %d bytes in use; expected %v and %d", what, err, b.Used(), want, used)
		}
	}
	a1, a2, root := open("a1", "a"), open("a2", "a"), open("root", "root")
	check("within the budget", a1.Take(60), nil, 60)
	check("up to its end", a2.Take(40), nil, 100)
	check("the largest asks", a1.Take(1), ErrFull, 100)
	check("a smaller one of the same user asks", a2.Take(1), nil, 41)
	if gone["a1"] != 1 {
		t.Fatal("the larger client was not evicted")
	}
	check("after its eviction", a1.Take(1), ErrFull, 41)
	a1.Give(60)
	a1.Close()
	check("an evicted client gives back", nil, nil, 41)
	check("another user", root.Take(59), nil, 100)
	check("the user with most asks", root.Take(1), ErrFull, 100)
	root.Give(19)
	check("back", nil, nil, 81)
	check("the user with most loses the largest", a2.Take(20), ErrFull, 81)
	check("up to the end again", a2.Take(19), nil, 100)
	check("the user with less asks", root.Take(5), nil, 45)
	if gone["a2"] != 1 || gone["root"] != 0 {
		t.Fatalf("evicted: %v", gone)
	}
	root.Belong("a")
	if root.Used() != 45 || len(b.users) != 1 || b.users["a"] != 45 {
		t.Fatalf("after Belong: %v", b.users)
	}
	root.Close()
	if b.Used() != 0 || len(b.accounts) != 0 || len(b.users) != 0 {
		t.Fatalf("after all: %+v", b)
	}
}

// A user of many small clients does not keep another from one large reply.
func TestManySmallClients(t *testing.T) {
	b := New(1000)
	evicted := 0
	for range 100 {
		if err := b.Open("many", func() { evicted++ }).Take(10); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Open("one", nil).Take(400); err != nil {
		t.Fatal(err)
	}
	if evicted != 40 || b.Used() != 1000 {
		t.Fatalf("%d evicted, %d bytes in use", evicted, b.Used())
	}
}

// Of clients with equal shares none is evicted for another.
func TestAsMuch(t *testing.T) {
	b := New(4)
	open := func(user string) error {
		return b.Open(user, func() { t.Errorf("one of %s was evicted", user) }).Take(1)
	}
	for range 2 {
		if a, z := open("a"), open("z"); a != nil || z != nil {
			t.Fatal(a, z)
		}
	}
	for range 100 {
		if a, z := open("a"), open("z"); a != ErrFull || z != ErrFull {
			t.Fatal(a, z)
		}
	}
}

// Of clients with as much, the one that asks is refused.
func TestAmongEquals(t *testing.T) {
	b := New(4)
	for range 4 {
		if err := b.Open("a", func() { t.Error("a client was evicted for an equal one") }).Take(1); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if err := b.Open("a", nil).Take(1); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
}

func TestTakeBeside(t *testing.T) {
	b := New(1 << 10)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for range 1000 {
				a := b.Open(string(rune('a'+i%3)), func() {})
				if a.Take(300) == nil {
					a.Give(100)
				}
				a.Close()
			}
		})
	}
	work.Wait()
	if b.Used() != 0 || len(b.accounts) != 0 || len(b.users) != 0 {
		t.Fatalf("after all: %+v", b)
	}
}
