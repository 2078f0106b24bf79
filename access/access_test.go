package access

import (
	"strings"
	"testing"
)

func TestSetRefuses(t *testing.T) {
	a, b := Hash("a"), Hash("b")
	u, err := New(User{Name: "kept", Tokens: []string{Hash("kept")}})
	if err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string][]User{
		"has other characters":      {{Tokens: []string{a}}},
		"two users":                 {{Name: "a", Tokens: []string{a}}, {Name: "a", Tokens: []string{b}}},
		"no token":                  {{Name: "a"}},
		"name of a map is empty":    {{Name: "a", Tokens: []string{a}, Read: []string{""}}},
		"have the same token":       {{Name: "a", Tokens: []string{a}}, {Name: "b", Tokens: []string{b, a}}},
		"a has a token twice":       {{Name: "a", Tokens: []string{a, a}}},
		"token is empty":            {Password("")},
		"a: a token is kept as sha": {{Name: "a", Tokens: []string{a[:len(a)-1]}}},
		"b: a token is kept as sha": {{Name: "b", Tokens: []string{a + "0"}}},
		"c: a token is kept as sha": {{Name: "c", Tokens: []string{strings.TrimPrefix(a, hashName)}}},
		"d: a token is kept as sha": {{Name: "d", Tokens: []string{"secret"}}},
	} {
		if err := u.Set(list...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not %q", err, want)
		}
	}
	if g := u.Find("", "kept"); g.Name() != "kept" || g.Revoked().Err() != nil {
		t.Error("a list that was refused has changed who may come")
	}
}

func TestFind(t *testing.T) {
	u, err := New(User{Name: "alice", Tokens: []string{Hash("one"), Hash("two")}}, User{Name: "bob", Tokens: []string{Hash("three")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, token, found string }{
		{"alice", "one", "alice"}, {"alice", "two", "alice"}, {"", "two", "alice"}, {"default", "three", "bob"},
		{"bob", "one", ""}, {"alice", "", ""}, {"", "", ""}, {"", "One", ""}, {"carol", "one", ""}, {"", Hash("one"), ""},
	} {
		if got := u.Find(c.name, c.token).Name(); got != c.found {
			t.Errorf("%q with %q is %q, and not %q", c.name, c.token, got, c.found)
		}
	}
}

func TestRights(t *testing.T) {
	u, err := New(
		User{Name: "some", Tokens: []string{Hash("some")}, Read: []string{"orders", "a b"}, Write: []string{"carts"}},
		User{Name: "reader", Tokens: []string{Hash("reader")}, Read: []string{All}},
		User{Name: "none", Tokens: []string{Hash("none")}},
		Password("word"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, read, refusedRead, write, refusedWrite string
	}{
		{"some", "orders:|orders:1|orders:1:2|a%20b:x|carts:1", "|orders|order|orders%3A:1|orders2:1|a b:x|cart:1", "carts:|carts:1", "|orders:1|a%20b:x|carts"},
		{"reader", "|orders:1|x", "-", "-", "|orders:1|x"},
		{"none", "-", "|orders:1|x", "-", "|orders:1|x"},
		{"nobody", "-", "|orders:1|x", "-", "|orders:1|x"},
		{"word", "|orders:1|x", "-", "|orders:1|x", "-"},
	} {
		g := u.Find("", c.token)
		for _, of := range []struct {
			keys string
			may  func([]byte) bool
			want bool
		}{{c.read, g.MayRead, true}, {c.refusedRead, g.MayRead, false}, {c.write, g.MayWrite, true}, {c.refusedWrite, g.MayWrite, false}} {
			if of.keys == "-" {
				continue
			}
			for key := range strings.SplitSeq(of.keys, "|") {
				if of.may([]byte(key)) != of.want {
					t.Errorf("%s, %q: %v", c.token, key, !of.want)
				}
			}
		}
		if got := g.MayAdminister(); got != (c.token == "word") {
			t.Errorf("%s administers: %v", c.token, got)
		}
	}
	if !Everything.MayAdminister() {
		t.Error("everything is not everything")
	}
}

// A grant ends when its user is gone or changed, and goes on when others are.
func TestSetRevokes(t *testing.T) {
	user := func(name, token string, read ...string) User {
		return User{Name: name, Tokens: []string{Hash(token)}, Read: read}
	}
	u, err := New(user("same", "1", "a", "b"), user("gone", "2"), user("rights", "3", "a"), user("token", "4"))
	if err != nil {
		t.Fatal(err)
	}
	grants := map[string]*Grant{}
	for _, token := range []string{"1", "2", "3", "4"} {
		g := u.Find("", token)
		grants[g.Name()] = g
	}
	if err := u.Set(user("same", "1", "b", "a"), user("rights", "3"), user("token", "5"), user("new", "2")); err != nil {
		t.Fatal(err)
	}
	for name, g := range grants {
		if (g.Revoked().Err() == nil) != (name == "same") {
			t.Errorf("%s: %v", name, g.Revoked().Err())
		}
	}
	if u.Find("", "1") != grants["same"] || u.Find("", "4") != nil || u.Find("", "2").Name() != "new" || u.Find("", "3").MayRead([]byte("a:1")) {
		t.Error("a user that was set is not found")
	}
	if got := strings.Join(u.Names(), " "); got != "new rights same token" {
		t.Error(got)
	}
}

func TestTokensDiffer(t *testing.T) {
	if a, b := NewToken(), NewToken(); a == b || len(a) != len("copal_")+32 {
		t.Error(a, b)
	}
}
