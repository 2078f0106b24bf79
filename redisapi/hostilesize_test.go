package redisapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// upload writes SET of a value of n bytes that pattern makes, and returns the checksum of the value.
func upload(w io.Writer, key string, n int) (sum [sha256.Size]byte, err error) {
	if _, err := fmt.Fprintf(w, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, n); err != nil {
		return sum, err
	}
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w, hash), rand.NewChaCha8([32]byte{1}), int64(n)); err != nil {
		return sum, err
	}
	hash.Sum(sum[:0])
	_, err = io.WriteString(w, "\r\n")
	return sum, err
}

// A value of the greatest length is kept byte for byte. A longer one gets the error of Redis, and
// only its connection ends.
//
// The bounds: SET takes 2.1 times the length of the value, for the request and for the buffers
// before it, the last of which has half the length. GET takes 3 times the length: the parts of the
// value are joined, and copied twice on the way to the reply. The rest of the bound is for garbage.
func TestHostileValue(t *testing.T) {
	size, limit := sized(4<<20, command.MaxString), int64(1<<30)
	if size < command.MaxString {
		limit = int64(size) + 1<<10
	}
	if strconv.IntSize < 64 && size == command.MaxString {
		t.Skip("the address space is short")
	}
	_, address := newServer(t, onDisk(t), func(s *Server) { s.MaxRequest = limit })
	other, p := dial(t, address), dial(t, address)
	var sum [sha256.Size]byte
	most := watchMemory()
	meanwhile(t, other, func(enough func() bool) (err error) {
		for { // others are served while it comes
			if sum, err = upload(p.nc, "k", size); err != nil {
				return err
			}
			if reply, err := commandtest.ReadReply(p.r); err != nil || reply != "OK" {
				return fmt.Errorf("the reply to SET is %s, %v", reply, err)
			}
			if enough() {
				return nil
			}
		}
	})
	wantMemory(t, "SET", most, 3*int64(size)+16<<20)
	most = watchMemory()
	meanwhile(t, other, func(enough func() bool) error {
		for {
			io.WriteString(p.nc, "GET k\r\n")
			if head, err := p.r.ReadString('\n'); err != nil || head != fmt.Sprintf("$%d\r\n", size) {
				return fmt.Errorf("%q, %v", head, err)
			}
			hash := sha256.New()
			if _, err := io.CopyN(hash, p.r, int64(size)); err != nil {
				return err
			}
			if !bytes.Equal(hash.Sum(nil), sum[:]) {
				return errors.New("another value comes back")
			}
			if end, err := p.r.ReadString('\n'); err != nil || end != "\r\n" || enough() {
				return err
			}
		}
	})
	wantMemory(t, "GET", most, 4*int64(size)+16<<20)
	if size == command.MaxString {
		p.want("APPEND k x", "(error) "+string(command.ErrTooLong))
		p.want("SETRANGE k 536870912 x", "(error) "+string(command.ErrTooLong))
	}
	tooLong := min(int(limit), command.MaxString) + 1
	most = watchMemory()
	refused := dial(t, address)
	go upload(refused.nc, "k", tooLong) // which fails amid the value
	if reply, err := commandtest.ReadReply(refused.r); err == nil && reply != "(error) ERR Protocol error: invalid bulk length" {
		t.Errorf("the reply is %s", reply)
	}
	if _, err := refused.r.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
	other.round(0)
	wantMemory(t, "a value that is refused", most, 16<<20)
	p.want("STRLEN k", strconv.Itoa(size))
}

// ranked is a member of a sorted set, and its score.
type ranked struct {
	name  string
	value float64
}

// ranking is a model of a sorted set: members and scores in order.
type ranking []ranked

func (r ranking) sort() {
	slices.SortFunc(r, func(a, b ranked) int {
		if a.value != b.value {
			if a.value < b.value {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

// below counts the members with scores below one.
func (r ranking) below(score float64) int {
	n, _ := slices.BinarySearchFunc(r, score, func(s ranked, score float64) int {
		if s.value < score {
			return -1
		}
		return 1
	})
	return n
}

func (r ranking) reply(withScores bool) string {
	var list []string
	for _, each := range r {
		list = append(list, strconv.Quote(each.name))
		if withScores {
			list = append(list, strconv.Quote(strconv.FormatFloat(each.value, 'f', -1, 64)))
		}
	}
	return "[" + strings.Join(list, " ") + "]"
}

// zadd makes the members by ZADD of 500 each, 20 of them in a pipeline.
func zadd(p *peer, key string, list ranking) error {
	const each, pipeline = 500, 20
	added := 0
	for part := range slices.Chunk(list, each*pipeline) {
		var out []byte
		requests := 0
		for few := range slices.Chunk(part, each) {
			out = fmt.Appendf(out, "*%d\r\n$4\r\nZADD\r\n$%d\r\n%s\r\n", 2+2*len(few), len(key), key)
			for _, m := range few {
				score := strconv.FormatFloat(m.value, 'g', -1, 64)
				out = fmt.Appendf(out, "$%d\r\n%s\r\n$%d\r\n%s\r\n", len(score), score, len(m.name), m.name)
			}
			requests++
		}
		if _, err := p.nc.Write(out); err != nil {
			return err
		}
		for range requests {
			reply, err := commandtest.ReadReply(p.r)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(reply)
			if err != nil {
				return errors.New(reply)
			}
			added += n
		}
	}
	if added != len(list) {
		return fmt.Errorf("%d of %d members are new", added, len(list))
	}
	return nil
}

// A sorted set of a million members is made, asked and deleted as a small one is, and others are served meanwhile.
//
// The bound: the index takes about 90 bytes for a member, in its hash table and in its two orders.
func TestHostileSortedSet(t *testing.T) {
	s, address := newServer(t, onDisk(t))
	other, p := dial(t, address), dial(t, address)
	size := sized(5_000, 1_000_000)
	r := rand.New(rand.NewPCG(1, 2))
	model := make(ranking, size)
	for i := range model {
		model[i] = ranked{fmt.Sprintf("m%07d", i), float64(r.IntN(size)) / 4} // some of them the same
	}
	most := watchMemory()
	meanwhile(t, other, func(enough func() bool) error {
		if err := zadd(p, "z", model); err != nil {
			return err
		}
		for n := 0; !enough(); n++ { // the set of the short form is soon made
			if err := zadd(p, fmt.Sprint("more", n), model); err != nil {
				return err
			}
		}
		return nil
	})
	wantMemory(t, fmt.Sprintf("%d members", size), most, 200*int64(size)+32<<20)

	p.want(fmt.Sprintf("ZADD z CH -1 %s 1e9 %s", model[0].name, model[1].name), "2")
	p.want("ZREM z "+model[2].name+" none", "1")
	model[0].value, model[1].value = -1, 1e9
	model = slices.Delete(model, 2, 3)
	model.sort()
	p.want("ZCARD z", strconv.Itoa(len(model)))
	for range sized(100, 2000) {
		i := r.IntN(len(model))
		j := min(i+r.IntN(50), len(model)-1)
		low, high := model[i].value, model[j].value
		from, to := model.below(low), model.below(high)
		with := " WITHSCORES"
		for request, want := range map[string]string{
			"ZRANK z " + model[i].name:                                       strconv.Itoa(i),
			"ZREVRANK z " + model[i].name:                                    strconv.Itoa(len(model) - 1 - i),
			fmt.Sprintf("ZRANGE z %d %d", i, j):                              model[i : j+1].reply(false),
			fmt.Sprintf("ZRANGE z %d %d", i-len(model), j-len(model)) + with: model[i : j+1].reply(true),
			fmt.Sprintf("ZCOUNT z %g (%g", low, high):                        strconv.Itoa(to - from),
			fmt.Sprintf("ZCOUNT z -inf (%g", low):                            strconv.Itoa(from),
			fmt.Sprintf("ZRANGEBYSCORE z %g (%g", low, high) + with:          model[from:to].reply(true),
			fmt.Sprintf("ZRANGEBYSCORE z %g +inf LIMIT %d 10", low, i-from):  model[i:min(i+10, len(model))].reply(false),
		} {
			p.want(request, want)
		}
	}
	deleted(t, s, other, p, model)
}

// deleted deletes the set while other clients are served. Neither DEL nor another client waits for
// the sweep that removes the members from the index: here it cannot begin before others are served.
// They are served during the sweep, too.
func deleted(t *testing.T, s *Server, other, p *peer, model ranking) {
	t.Helper()
	engine := opened.Engine(s.DB)
	gone := func() error {
		p.want("DEL z", "1")
		p.want("EXISTS z", "0")
		p.want("ZCARD z", "0")
		return nil
	}
	err := engine.Housekeep(func() error { // no sweep runs meanwhile
		gone()
		other.round(0)
		p.want("ZADD z 1 new", "1")
		p.want("ZRANGE z 0 -1", `["new"]`)
		return gone()
	})
	if err != nil {
		t.Error(err)
	}
	meanwhile(t, other, func(enough func() bool) error {
		for {
			if err := engine.Sweep(); err != nil || enough() {
				return err
			}
			if err := errors.Join(zadd(p, "z", model), gone()); err != nil {
				return err
			}
		}
	})
}

// A name of an element that is too long is an error that says so, and no error of the key.
func TestLongNamesOfElements(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	long := strings.Repeat("x", 70_000)
	for _, request := range []string{"SADD k ", "HSET k 1 v ", "HSETNX k ", "HINCRBY k ", "ZADD k 1 ", "ZINCRBY k 1 ", "GEOADD k 1 1 "} {
		request += long
		if request[0] == 'H' {
			request += " 1"
		}
		if got := p.do(request); !strings.Contains(got, "too large: a field or member of 700") {
			t.Errorf("%.12s: %s", request, got)
		}
	}
	p.want("EXISTS k", "0")
	p.want("HGET k "+long, "nil")
	p.want("SISMEMBER k "+long, "0")
}
