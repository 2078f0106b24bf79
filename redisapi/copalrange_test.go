package redisapi

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/redisapi/internal/command"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// spot is a composite key.
type spot struct {
	Town string
	N    int
}

// askedWords are the arguments that name a range.
func askedWords(r *engine.Range) string {
	start, rest := r.Asked()
	return fmt.Sprintf("%q %q", start, rest)
}

// pages reads a range to its end, count at a time, and returns the keys.
func (p *peer) pages(words string, count int) (keys []string) {
	p.t.Helper()
	after := ""
	for {
		reply := p.do(fmt.Sprint("COPAL.RANGE ", words, " COUNT ", count, after))
		more, ok := strings.CutPrefix(reply, "[1 ")
		if rest, last := strings.CutPrefix(reply, "[0 "); !ok && !last {
			p.t.Fatalf("COPAL.RANGE %s: %s", words, reply)
		} else if last {
			more = rest
		}
		page := entryKeys(more)
		if ok && len(page) != count || len(page) > count {
			p.t.Fatalf("COPAL.RANGE %s: a page of %d with COUNT %d, more: %v", words, len(page), count, ok)
		}
		if keys = append(keys, page...); !ok {
			return keys
		}
		after = " AFTER " + page[len(page)-1]
	}
}

// entryKeys returns the keys in a list of entries, in quotes.
func entryKeys(list string) (keys []string) {
	for _, each := range strings.Split(list, `[`) {
		if key, _, ok := strings.Cut(each, ` "`); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkRanges fills a map, and compares its ranges with the keys in the order of compare.
func checkRanges[K comparable](t *testing.T, s *Server, p *peer, name string, keys []K, compare func(a, b K) int) {
	t.Helper()
	m, err := copal.OpenMap[K, int](s.DB, name, copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	of, err := keycodec.For[K]()
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if err := m.Set(key, i); err != nil {
			t.Fatal(err)
		}
	}
	whole := func(key K) []byte {
		b, err := of.Append([]byte(copal.MapPrefix(name)), key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	slices.SortFunc(keys, compare)
	rng := rand.New(rand.NewPCG(3, 6))
	check := func(what string) {
		t.Helper()
		for range 40 {
			var low, high *K
			if rng.IntN(4) > 0 {
				low = &keys[rng.IntN(len(keys))]
			}
			if rng.IntN(4) > 0 {
				high = &keys[rng.IntN(len(keys))]
			}
			var span engine.Span
			prefix := []byte(copal.MapPrefix(name))
			if low != nil {
				span.Low = of.Order().AppendSortKey([]byte{}, string(whole(*low)[len(prefix):]))
			}
			if high != nil {
				span.High = of.Order().AppendSortKey([]byte{}, string(whole(*high)[len(prefix):]))
			}
			var want []string
			for _, key := range keys {
				if (low == nil || compare(key, *low) >= 0) && (high == nil || compare(key, *high) < 0) {
					want = append(want, fmt.Sprintf("%q", whole(key)))
				}
			}
			r := keyrange.Sorted(prefix, of.Order(), span)
			start, rest := r.Asked()
			again, err := engine.AskedRange(start, rest)
			if s, e := again.Asked(); err != nil || !bytes.Equal(s, start) || !bytes.Equal(e, rest) {
				t.Fatalf("%q %q is %q %q: %v", start, rest, s, e, err)
			}
			count := 1 + rng.IntN(9)
			if got := p.pages(askedWords(&r), count); !slices.Equal(got, want) {
				t.Fatalf("%s: %s in pages of %d:\n%v, want\n%v", what, askedWords(&r), count, got, want)
			}
			slices.Reverse(want)
			if got := p.pages(askedWords(&r)+" REV NOVALUES", count); !slices.Equal(got, want) {
				t.Fatalf("%s: %s down in pages of %d:\n%v, want\n%v", what, askedWords(&r), count, got, want)
			}
		}
		p.want(fmt.Sprintf("COPAL.LEN %q", copal.MapPrefix(name)), fmt.Sprint(len(keys)))
	}
	check(name)
	p.do("COPAL.BEGIN SNAPSHOT")
	gone := keys[len(keys)/2]
	if _, err := m.Delete(gone); err != nil {
		t.Fatal(err)
	}
	check(name + " in a snapshot")
	p.want("COPAL.ROLLBACK", "OK")
	p.do("COPAL.BEGIN")
	p.want(fmt.Sprintf(`COPAL.TYPED SET %q "\x00\x00\x00\x00\x00\x00\x00\x001"`, whole(gone)), "OK")
	check(name + " in a transaction")
	p.want("COPAL.COMMIT", "OK")
	check(name + " after it")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.DB.Drop(name); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys { // of no map, so that nothing knows an order
		if err := s.DB.Raw().Set(whole(key), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	check(name + " of no map")
}

func TestRangesInOrder(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	rng := rand.New(rand.NewPCG(1, 9))
	var texts []string
	var numbers []int
	var places []spot
	for i := range 60 {
		texts = append(texts, string([]byte{'a' + byte(i%7), []byte{0, 1, ',', 0x7f, 0x80, 0xff}[rng.IntN(6)], byte(0x80 + i)}))
		numbers = append(numbers, (i-30)*(i-30)*(i-30))
		places = append(places, spot{texts[i%5], i - 30})
	}
	checkRanges(t, s, p, "texts", texts, cmp.Compare[string])
	checkRanges(t, s, p, "numbers", numbers, cmp.Compare[int])
	checkRanges(t, s, p, "places", places, func(a, b spot) int { return cmp.Or(cmp.Compare(a.Town, b.Town), cmp.Compare(a.N, b.N)) })
}

// An entry comes with type, value, deadline and content type.
func TestRangeEntries(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.do("SET a 1 PXAT 9999999999999")
	p.do("RPUSH b x")
	p.do("PEXPIREAT b 9999999999998")
	p.do("HSET c f v")
	p.do(`SET d ""`)
	const none = `\x00\x00\x00\x00\x00\x00\x00\x00`
	p.want(`COPAL.RANGE "" ""`, `[0 [["a" "" "`+none+`1" 9999999999999 ""] ["b" "list" "" 9999999999998 ""] ["c" "hash" "" 0 ""] ["d" "" "`+none+`" 0 ""]]]`)
	p.want(`COPAL.RANGE "" "" NOVALUES REV COUNT 2`, `[1 [["d" "" "" 0 ""] ["c" "hash" "" 0 ""]]]`)
	p.want(`COPAL.RANGE b "bytes d"`, `[0 [["b" "list" "" 9999999999998 ""] ["c" "hash" "" 0 ""]]]`)
	p.want(`COPAL.RANGE c bytes`, `[0 [["c" "hash" "" 0 ""] ["d" "" "`+none+`" 0 ""]]]`)
	p.want(`COPAL.RANGE d "bytes b"`, `[0 []]`)
	p.want(`COPAL.RANGE b "" AFTER b`, `[0 []]`)
	entries := func() {
		p.want("COPAL.ENTRY a", `["" "`+none+`1" 9999999999999 ""]`)
		p.want("COPAL.ENTRY b", `["list" "" 9999999999998 ""]`)
		p.want("COPAL.ENTRY c", `["hash" "" 0 ""]`)
		p.want("COPAL.ENTRY d", `["" "`+none+`" 0 ""]`)
	}
	entries()
	p.want("COPAL.ENTRY e", "nil[]")
	p.do("COPAL.BEGIN")
	entries()
	p.do("RPUSH e x")
	p.do("PEXPIREAT e 9999999999998")
	p.want("COPAL.ENTRY e", `["list" "" 9999999999998 ""]`)
	p.want(`COPAL.RANGE e ""`, `[0 [["e" "list" "" 9999999999998 ""]]]`)
	p.want(`COPAL.LEN ""`, "5")
	p.want(`COPAL.LEN b`, "1")
	p.do("COPAL.ROLLBACK")
	p.want(`COPAL.LEN ""`, "4")
	p.want(`COPAL.LEN b`, "1")
	// A reply ends after a MiB of values, and reports that the range has more.
	for i := range 8 {
		if err := s.DB.Raw().Set(fmt.Appendf(nil, "large:%d", i), make([]byte, 400<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.do("COPAL.RANGE large: \"\""); !strings.HasPrefix(got, "[1 ") || len(entryKeys(got)) != 3 {
		t.Errorf("%.20s with %d entries", got, len(entryKeys(got)))
	}
	if got := p.do("COPAL.RANGE large: \"\" NOVALUES"); !strings.HasPrefix(got, "[0 ") || len(entryKeys(got)) != 8 {
		t.Errorf("%s", got)
	}
}

// A range is deleted as one record, in a transaction when that commits.
func TestDelRange(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	m, err := copal.OpenMap[int, string](s.DB, "ages", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := m.Set(i, "x"); err != nil {
			t.Fatal(err)
		}
	}
	records := s.DB.Stats().Records
	p.want(`COPAL.DELRANGE ages:9 "int ages:30"`, "OK")
	if n := s.DB.Stats().Records - records; n != 1 {
		t.Errorf("the deletion has taken %d records", n)
	}
	p.want("COPAL.LEN ages:", "19")
	if m.Has(9) || m.Has(29) || !m.Has(8) || !m.Has(30) {
		t.Error("the range was another")
	}
	p.do("COPAL.BEGIN")
	p.want(`COPAL.DELRANGE ages: ""`, "OK")
	p.want("COPAL.LEN ages:", "0")
	if m.Len() != 19 {
		t.Error("others see what a transaction has deleted")
	}
	p.want("COPAL.COMMIT", "OK")
	if m.Len() != 0 {
		t.Errorf("%d are left", m.Len())
	}
	p.want("MULTI", "OK")
	p.want(`SET ages:1 "\"x\""`, "QUEUED")
	p.want(`COPAL.DELRANGE ages: "int"`, "QUEUED")
	p.want("EXEC", "[OK OK]")
	p.want("COPAL.LEN ages:", "0")
	for i := range 40 {
		if err := m.Set(i, "x"); err != nil {
			t.Fatal(err)
		}
	}
	p.want(`COPAL.DELRANGE ages: "int ages:30"`, "OK")
	p.want("COPAL.DELRANGE ages:39 int", "OK")
	p.want("COPAL.DELRANGE ages:50 int", "OK")
	if m.Len() != 9 || !m.Has(30) || !m.Has(38) {
		t.Errorf("%d are left", m.Len())
	}
}

// An invalid range is an error, and nothing is deleted.
func TestHostileRanges(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	if _, err := copal.OpenMap[int, string](s.DB, "ages", copal.Ordered()); err != nil {
		t.Fatal(err)
	}
	p.want(`SET ages:1 "\"x\""`, "OK")
	for _, words := range []string{
		`ages:1 "no order"`, `ages:1 int4`, `ages "int"`, `"" "int"`, `"" "int 5"`, `ages:x "int ages:5"`, `ages:1 "int ages:x"`, `ages:1 "int other:5"`, `ages:1 "int "`,
		`ages:1 "int ages:"`, `ages:01 "int ages:5"`, `ages:1 "[3]int ages:5"`, `ages:1 "[99999999999999999999]int"`, `ages:1 "[1000000]float ages:5"`, `ages:1 "{int,int} ages:5"`,
		`ages:1 " "`, `ages:1 "\x00"`, `ages:1 "int\x00ages:5"`,
	} {
		for _, name := range []string{"COPAL.RANGE ", "COPAL.DELRANGE "} {
			if got := p.do(name + words); !strings.HasPrefix(got, "(error) ERR not a range") {
				t.Errorf("%s%s: %s", name, words, got)
			}
		}
	}
	long := strings.Repeat("x", copal.MaxKeyBytes+1)
	for _, words := range []string{long + ` ""`, `a "bytes ` + long + `"`} {
		words = strings.ReplaceAll(words, `"bytes `+long+`"`, fmt.Sprintf("%q", "bytes "+long))
		for _, name := range []string{"COPAL.RANGE ", "COPAL.DELRANGE "} {
			if got := p.do(name + words); !strings.HasPrefix(got, "(error) ERR ") {
				t.Errorf("%s of a long key: %s", name, got)
			}
		}
	}
	for words, reply := range map[string]string{
		`COPAL.RANGE ages: "" COUNT 0`:                   string(command.ErrPositive),
		`COPAL.RANGE ages: "" COUNT -1`:                  string(command.ErrPositive),
		`COPAL.RANGE ages: "" COUNT`:                     string(command.ErrSyntax),
		`COPAL.RANGE ages: "" AFTER`:                     string(command.ErrSyntax),
		`COPAL.RANGE ages: "" AFTER other:1`:             "ERR AFTER names a key that is not in the range",
		`COPAL.RANGE ages: "" AFTER ""`:                  "ERR AFTER names a key that is not in the range",
		`COPAL.RANGE ages:5 "int ages:9" AFTER ages:1`:   "ERR AFTER names a key that is not in the range",
		`COPAL.RANGE ages: "" WRONG`:                     string(command.ErrSyntax),
		`COPAL.RANGE ages:`:                              "ERR wrong number of arguments for 'copal.range' command",
		`COPAL.DELRANGE ages: "" REV`:                    "ERR wrong number of arguments for 'copal.delrange' command",
		`COPAL.RANGE ages: "" COUNT 9999999999999999999`: string(command.ErrPositive),
	} {
		p.want(words, "(error) "+reply)
	}
	if got := entryKeys(p.do(`COPAL.RANGE ages: "" COUNT 9223372036854775807`)); !reflect.DeepEqual(got, []string{`"ages:1"`}) {
		t.Errorf("%v are there", got)
	}
}

// A user reads and deletes ranges within the maps that are theirs, and no others.
func TestRangeRights(t *testing.T) {
	s, address := newServer(t, func(s *Server) { s.Access = users(t, shop, access.Password("all")) })
	for _, key := range []string{"orders:a", "orders:b", "prices:a", "secrets:a", "a"} {
		if err := s.DB.Raw().Set([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := copaladmin.DeclareMap(s.DB, "secrets"); err != nil {
		t.Fatal(err)
	}
	p := dial(t, address)
	const no = "(error) NOPERM No permissions to access a key"
	for _, words := range []string{`COPAL.RANGE orders: ""`, "COPAL.BEGIN", "COPAL.FEED OPEN", "COPAL.SCHEMA SET a b", "COPAL.LEN orders:", "COPAL.TYPED GET orders:a"} {
		p.want(words, "(error) NOAUTH Authentication required.")
	}
	p.want("AUTH shop shop", "OK")
	for _, c := range [][2]string{
		{`COPAL.RANGE orders: "" NOVALUES`, `[0 [["orders:a" "" "" 0 ""] ["orders:b" "" "" 0 ""]]]`},
		{`COPAL.RANGE orders:a "bytes orders:b" NOVALUES`, `[0 [["orders:a" "" "" 0 ""]]]`},
		{`COPAL.RANGE orders:a "bytes orders;" NOVALUES REV`, `[0 [["orders:b" "" "" 0 ""] ["orders:a" "" "" 0 ""]]]`},
		{`COPAL.RANGE orders:a "bytes orders;a"`, no}, {`COPAL.RANGE orders:a bytes`, no}, {`COPAL.RANGE orders ""`, no}, {`COPAL.RANGE order ""`, no},
		{`COPAL.RANGE "" ""`, no}, {`COPAL.RANGE secrets: ""`, no}, {`COPAL.RANGE orders:a "bytes secrets:b"`, no}, {`COPAL.RANGE secrets: int`, no},
		{`COPAL.RANGE prices: "" NOVALUES`, `[0 [["prices:a" "" "" 0 ""]]]`}, {`COPAL.DELRANGE prices: ""`, no}, {`COPAL.DELRANGE orders:a bytes`, no},
		{`COPAL.DELRANGE orders:a "bytes secrets:b"`, no}, {`COPAL.DELRANGE orders:a "bytes orders:b"`, "OK"}, {"EXISTS orders:a orders:b", "1"},
		{"COPAL.LEN orders:", "1"}, {"COPAL.LEN secrets:", no}, {`COPAL.LEN ""`, no}, {"COPAL.LEN order", no},
		{"COPAL.TYPED GET secrets:a", no}, {`COPAL.TYPED SET prices:a "\x00\x00\x00\x00\x00\x00\x00\x00"`, no}, {"COPAL.TYPED MGET orders:a secrets:a", no},
		{"COPAL.STREAM GET secrets:a", no}, {"COPAL.STREAM SET prices:a n v", no}, {"COPAL.STREAM GET orders:s", "[0 []]"}, {"COPAL.STREAM SET orders:s n v", "OK"},
		{"COPAL.MAP DECLARE prices", no}, {"COPAL.MAP DECLARE secrets", no}, {"COPAL.MAP DECLARE orders", "OK"}, {"COPAL.MAP LIST", `["orders"]`}, {"COPAL.MAP ORDERS", "[]"}, {"DEL orders:s", "1"},
		{"COPAL.FEED OPEN", no}, {"COPAL.FEED OPEN PREFIX secrets:", no}, {"COPAL.FEED OPEN KEY secrets:a", no}, {`COPAL.FEED OPEN PREFIX ""`, no},
	} {
		p.want(c[0], c[1])
	}
	p.do("COPAL.BEGIN")
	p.want("GET secrets:a", no)
	p.want(`COPAL.RANGE secrets: ""`, no)
	p.want("COPAL.ROLLBACK", "OK")
	reader := access.User{Name: "reader", Tokens: []string{access.Hash("reader")}, Read: []string{access.All}}
	if err := s.Access.Set(shop, access.Password("all"), reader); err != nil {
		t.Fatal(err)
	}
	q := dial(t, address)
	q.want("AUTH reader reader", "OK")
	q.want("COPAL.SCHEMA SET a b", "(error) NOPERM the user may write nothing")
	q.want(`COPAL.LEN ""`, "4")
}

// Each command returns an error when the store is closed.
func TestRangeOfClosedStore(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	if err := s.DB.Close(); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{`COPAL.RANGE "" ""`, `COPAL.DELRANGE a ""`, `COPAL.LEN ""`, "COPAL.LEN a", "COPAL.ENTRY a", "COPAL.BEGIN", "COPAL.BEGIN SNAPSHOT", "COPAL.FEED OPEN", "COPAL.SCHEMA SET a b",
		"COPAL.MAP LIST", "COPAL.MAP ORDERS", "COPAL.MAP DECLARE a", "COPAL.STREAM GET a", "COPAL.STREAM SET a b c", `COPAL.TYPED SET a "\x00\x00\x00\x00\x00\x00\x00\x00" CONTENT a/b`} {
		p.want(words, "(error) ERR the store is closed")
	}
}

// A value that is too large for one record is shown as any other, by itself and in a transaction.
func TestLargeEntry(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	value := fmt.Sprintf("%q", strings.Repeat("\x00", command.NameBytes)+strings.Repeat("x", 3<<20))
	p.want("COPAL.TYPED SET big "+value, "OK")
	want := `["" ` + value + ` 0 ""]`
	same := func(where string) {
		t.Helper()
		if got := p.do("COPAL.ENTRY big"); got != want {
			t.Errorf("%s: %.40s of %d bytes, want %.40s of %d", where, got, len(got), want, len(want))
		}
	}
	same("by itself")
	p.do("COPAL.BEGIN SNAPSHOT")
	same("in a snapshot")
	p.want("COPAL.ROLLBACK", "OK")
}
