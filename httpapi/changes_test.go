package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
)

// event has the changes of a stream under one number.
type event struct {
	Seq     uint64
	Changes []struct{ Op, Map, Key, From, To string }
}

// list are the changes of the event, one by one.
func (e *event) list() (out []string) {
	for _, c := range e.Changes {
		out = append(out, fmt.Sprintf("%d %s %s/%s%s-%s", e.Seq, c.Op, c.Map, c.Key, c.From, c.To))
	}
	return out
}

// restarted is a server whose store is closed and opened again while clients look on.
type restarted struct {
	t   *testing.T
	dir string
	cut atomic.Int64 // streams that ended before their end

	mu     sync.Mutex
	db     *copal.DB
	server *httptest.Server
	end    context.CancelFunc
}

func (s *restarted) start() {
	s.t.Helper()
	db, err := copal.Open(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	server := httptest.NewServer(Handler(db, WithContext(ctx)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.server, s.end = db, server, end
}

func (s *restarted) stop() {
	s.t.Helper()
	s.end()
	s.server.CloseClientConnections()
	s.server.Close()
	if err := s.db.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *restarted) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server.URL
}

// follow reads a stream as a client does that is cut off anywhere, and comes back with the number of the last whole
// event, until the key "last" comes. It returns the changes that came.
func follow(s *restarted, path string, lines bool, r *rand.Rand) (told []string, err error) {
	since := uint64(0)
	for {
		request, err := http.NewRequest("GET", s.url()+path, nil)
		if err != nil {
			return nil, err
		}
		if lines {
			request.Header.Set("Accept", typeLines)
			request.URL.RawQuery = fmt.Sprint("since=", since)
		} else {
			request.Header.Set("Last-Event-ID", fmt.Sprint(since))
		}
		a, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // the server is not there at the moment
		}
		if a.StatusCode != 200 {
			text, _ := io.ReadAll(a.Body)
			a.Body.Close()
			return nil, fmt.Errorf("since %d: %d: %s", since, a.StatusCode, text)
		}
		most := int64(1 + r.IntN(2000))
		in := bufio.NewReaderSize(io.LimitReader(a.Body, most), 16)
		var data []byte
		ended := false
		for !ended {
			line, err := in.ReadBytes('\n')
			if err != nil {
				break
			}
			line = bytes.TrimSuffix(line, []byte("\n"))
			var now *event
			switch {
			case lines && len(line) > 0:
				now = &event{}
				if err := json.Unmarshal(line, now); err != nil {
					return nil, fmt.Errorf("%s: %w", line, err)
				}
			case lines:
			case bytes.HasPrefix(line, []byte("data: ")):
				data = bytes.Clone(line[6:])
			case len(line) == 0 && data != nil:
				now = &event{}
				if err := json.Unmarshal(data, now); err != nil {
					return nil, fmt.Errorf("%s: %w", data, err)
				}
				data = nil
			}
			if now != nil {
				if now.Seq <= since && len(now.Changes) > 0 {
					return nil, fmt.Errorf("%d is told, and %d was told before", now.Seq, since)
				}
				since = now.Seq
				told = append(told, now.list()...)
				ended = slices.ContainsFunc(now.Changes, func(c struct{ Op, Map, Key, From, To string }) bool { return c.Key == "last" })
			}
		}
		a.Body.Close()
		if ended {
			return told, nil
		}
		s.cut.Add(1)
	}
}

// Clients that are cut off anywhere, at a server that is stopped and started, get each change once and in order.
// With COPAL_LONG=1 they are cut off 10,000 times.
func TestNothingIsMissed(t *testing.T) {
	cut, most := int64(0), int64(300)
	if os.Getenv("COPAL_LONG") == "1" {
		most = 10_000
	}
	defer func() { t.Logf("cut off %d times", cut) }()
	for seed := uint64(0); cut < most && !t.Failed(); seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		s := &restarted{t: t, dir: t.TempDir()}
		s.start()
		paths := []string{"/v1/changes", "/v1/maps/m/changes", "/v1/changes", "/v1/maps/m/changes"}
		told := make([][]string, len(paths))
		failed := make([]error, len(paths))
		var clients sync.WaitGroup
		for i, path := range paths {
			own := rand.New(rand.NewPCG(seed, uint64(i)))
			clients.Go(func() { told[i], failed[i] = follow(s, path, i >= 2, own) })
		}
		for range 3 + r.IntN(3) {
			someWrites(t, s.db, r, 30)
			s.stop()
			s.start()
		}
		if err := s.db.Raw().Set(append(copal.MapPrefix("m"), "last"...), nil); err != nil {
			t.Fatal(err)
		}
		clients.Wait()
		all := changesOf(t, s.db)
		within := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !strings.Contains(c, " m/") })
		for i, want := range [][]string{all, within, all, within} {
			if failed[i] != nil || !slices.Equal(told[i], want) {
				t.Errorf("seed %d, client %d: %v, told %d changes of %d:\n%q\n%q", seed, i, failed[i], len(told[i]), len(want), told[i], want)
			}
		}
		s.stop()
		cut += s.cut.Load()
	}
}

// someWrites writes one by one, and several that count together.
func someWrites(t *testing.T, db *copal.DB, r *rand.Rand, n int) {
	t.Helper()
	key := func(r *rand.Rand) []byte {
		return append(copal.MapPrefix([]string{"m", "o"}[r.IntN(2)]), byte('a'+r.IntN(5)))
	}
	one := func(raw *copal.Raw) (err error) {
		switch r.IntN(8) {
		case 0:
			_, err = raw.Delete(key(r))
		case 1:
			err = raw.DeletePrefix(key(r))
		default:
			err = raw.Set(key(r), bytes.Repeat([]byte("v"), r.IntN(300)))
		}
		return err
	}
	for range n {
		var err error
		if r.IntN(3) > 0 {
			err = one(db.Raw())
		} else {
			err = db.Update(func(tx *copal.Tx) error {
				for range 1 + r.IntN(6) {
					if err := tx.Raw().Set(key(r), bytes.Repeat([]byte("t"), r.IntN(300))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// changesOf are all changes that the log has, in the form of event.list.
func changesOf(t *testing.T, db *copal.DB) (list []string) {
	t.Helper()
	var s stream
	for c, err := range db.Watch(t.Context(), copal.WithAfter(0), copal.WithUntil(seqNow(t, db))) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.append(nil, &c, false)
		if err != nil {
			t.Fatal(err)
		}
		var e event
		if text = bytes.TrimRight(text, "]}\n"); json.Unmarshal(append(text, "}]}"...), &e) != nil {
			t.Fatalf("%s", text)
		}
		list = append(list, e.list()...)
	}
	return list
}

// A stream says where it is when nothing comes, and goes on below no floor.
func TestStreamOfChanges(t *testing.T) {
	p := newPeer(t)
	p.want("PUT /v1/maps/m/a\n\n1", "201")
	streams := func(request string, during func()) (out string) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.h.ServeHTTP(w, asked(request).WithContext(ctx))
			}()
			synctest.Wait()
			during()
			synctest.Wait()
			cancel()
			<-done
			out = w.Body.String()
		})
		return times.ReplaceAllString(out, `"TIME"`)
	}
	if got := streams("GET /v1/changes", func() { time.Sleep(2*heartbeat + time.Second) }); got != "retry: 1000\nid: 2\n\nid: 2\n\nid: 2\n\n" {
		t.Errorf("%q", got)
	}
	// Changes of other maps move the number of the stream.
	got := streams("GET /v1/maps/m/changes\nAccept: application/x-ndjson", func() {
		for range 5 {
			p.want("PUT /v1/maps/o/x\n\n1", map[bool]string{true: "204", false: "201"}[p.db.Raw().Has([]byte("o:x"))])
		}
		time.Sleep(heartbeat)
	})
	if got != `{"seq":2,"changes":[]}`+"\n"+`{"seq":8,"changes":[]}`+"\n" {
		t.Errorf("%q", got)
	}
	if got := streams("GET /v1/maps/m/changes?since=0\nLast-Event-ID: 1", func() {}); got != "retry: 1000\nid: 1\n\ndata: {\"seq\":2,\"time\":\"TIME\",\"changes\":[{\"op\":\"set\",\"map\":\"m\",\"key\":\"a\",\"value\":1}]}\nid: 2\n\n" {
		t.Errorf("%q", got)
	}
	p.want("GET /v1/changes?since=x", `400 bad-request "since: \"x\" is not a sequence number"`)
	p.want("GET /v1/changes?since=99", `410 gone "the history is lost from there on: compaction has removed it, or the log ends before"`)
	p.want("HEAD /v1/changes", "200")
	p.want("PUT /v1/maps/m/a\n\n{\n\"x\":\r\n1}", "204")
	if got := streams("GET /v1/maps/m/changes?since=2&prefix=a", func() {}); !strings.Contains(got, `"value":{"x":1}`) {
		t.Errorf("%q", got)
	}
}

// Below the floor of compaction a stream is gone, and not silent.
func TestStreamBelowTheFloor(t *testing.T) {
	p := newPeer(t)
	for range 50 {
		if err := p.db.Raw().Set([]byte("m:a"), bytes.Repeat([]byte("x"), 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	p.want("HEAD /v1/changes?since=1", "200")
	if err := p.db.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p.want("HEAD /v1/changes?since=1", "410")
	p.want("HEAD /v1/maps/m/changes\nLast-Event-ID: 1", "410")
	p.want("HEAD /v1/maps/m/a?at=1", "410")
	p.want("HEAD /v1/changes?since=1\nAccept: text/event-stream", "410")
	p.want("GET /v1/changes?since=1\nAccept: application/x-ndjson", `410 gone "the history is lost from there on: compaction has removed it, or the log ends before"`)
	// An EventSource gets an event: after a 410 it would not come back.
	for _, request := range []string{"GET /v1/changes?since=1", "GET /v1/maps/m/changes\nLast-Event-ID: 1"} {
		got := p.do(request+"\nAccept: text/event-stream", "Content-Type")
		data, is := strings.CutPrefix(got, "200 Content-Type=text/event-stream retry: 10000\nevent: error\ndata: ")
		var said problem
		if err := json.Unmarshal([]byte(data), &said); !is || err != nil || said.Status != 410 {
			t.Errorf("%s: %s", request, got)
		}
	}
	p.want(fmt.Sprintf("HEAD /v1/changes?since=%d", seqNow(t, p.db)), "200")
}

// A heartbeat breaks no event that is being sent.
func TestBeatWithinAnEvent(t *testing.T) {
	for _, events := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := httptest.NewRecorder()
			q := &request{handler: &handler{ctx: t.Context(), patience: time.Second}, w: w, r: asked("GET /")}
			s := stream{q: q, events: events, control: http.NewResponseController(w)}
			pieces := make(chan piece)
			go func() {
				defer close(pieces)
				c := copal.Change{Key: []byte("k"), Deleted: true, Seq: 1}
				for i := range 3 {
					c.More = i == 0
					text, err := s.append(nil, &c, i == 1)
					pieces <- piece{text, !c.More, err}
					time.Sleep(20 * time.Second)
				}
			}()
			if err := s.pass(pieces); err != nil {
				t.Error(err)
			}
			told := 0
			for line := range strings.SplitSeq(w.Body.String(), "\n") {
				text, data := strings.CutPrefix(line, "data: ")
				if line == "" || events && !data {
					continue
				}
				if told++; !json.Valid([]byte(text)) {
					t.Errorf("events %v: %q", events, line)
				}
			}
			if told != 2 {
				t.Errorf("%d events", told)
			}
		})
	}
}
