// Command http measures the HTTP server.
//
//	go run ./http            # all lines, 5 rounds: five minutes
//	go run ./http -run get   # some lines
//
// get is GET of one item by wrk, 100 connections from 10 threads, beside a bare handler of net/http
// that has the answer in memory, and the same handler of fasthttp. Each is a process of its own,
// and they take turns. lines is a map of 200,000 entries in and out as lines of JSON. readers is
// 1,000 connections that get the changes of the store: the total of their events per second while
// writes do not pause, and the delay of events at 50 writes per second.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/httpapi"
)

var (
	rounds  = flag.Int("rounds", 5, "rounds, of which the medians are shown")
	lasting = flag.Duration("time", 10*time.Second, "how long a round of get and of readers is")
	only    = flag.String("run", "", "regular expression of the lines to measure")
	serves  = flag.String("serve", "", "what to serve; for itself")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if *serves != "" {
		return serve(*serves)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	for _, line := range []struct {
		name string
		run  func() error
	}{{"get", measureGet}, {"lines", measureLines}, {"readers", measureReaders}} {
		if wanted.MatchString(line.name) {
			if err := line.run(); err != nil {
				return fmt.Errorf("%s: %w", line.name, err)
			}
		}
	}
	return nil
}

// The item, and the answer for it.
const (
	item   = `{"id":"alice","value":{"Name":"Alice","Age":28,"Email":"alice@example.com"}}`
	answer = `{"id":"alice","value":{"Name":"Alice","Age":28,"Email":"alice@example.com"},"age":1}` + "\n"
)

// serve is the main function of the child: it prints its address, and serves until it is
// interrupted.
func serve(name string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var handler http.Handler
	switch name {
	case "fasthttp":
		s := &fasthttp.Server{Handler: func(r *fasthttp.RequestCtx) {
			if string(r.Path()) != "/items/alice" || !r.IsGet() {
				r.SetStatusCode(http.StatusNotFound)
				return
			}
			r.SetContentType("application/json")
			r.SetBodyString(answer)
		}}
		go s.Serve(l)
		<-ctx.Done()
		return nil
	case "bare":
		mux := http.NewServeMux()
		mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") != "alice" {
				http.NotFound(w, r)
				return
			}
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h.Set("Content-Length", strconv.Itoa(len(answer)))
			io.WriteString(w, answer)
		})
		handler = mux
	default:
		dir, err := os.MkdirTemp("", "copal-bench-http-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		db, err := copal.Open(filepath.Join(dir, "store"))
		if err != nil {
			return err
		}
		defer db.Close()
		handler = httpapi.Handler(db, httpapi.WithContext(ctx))
	}
	s := &http.Server{Handler: handler}
	go s.Serve(l)
	<-ctx.Done()
	return s.Close()
}

// server is a child.
type server struct {
	*exec.Cmd
	url string
}

func start(name string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{Cmd: exec.Command(self, "-serve", name)}
	s.Stderr = os.Stderr
	out, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.url = "http://" + strings.TrimSpace(line)
	return s, err
}

func (s *server) stop() error {
	s.Process.Signal(os.Interrupt)
	return s.Wait()
}

// send makes a request, and returns the body of the answer.
func (s *server) send(method, path, kind string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", kind)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %s", method, path, a.Status, text)
	}
	return text, err
}

const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

var (
	perSecond = regexp.MustCompile(`Requests/sec: +([\d.]+)`)
	late      = regexp.MustCompile(`99% +([\d.]+)(us|ms|s)\n`)
	bad       = regexp.MustCompile(`(Socket errors|Non-2xx).*`)
)

func measureGet() error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("%w: Debian has it in wrk", err)
	}
	names := []string{"copal", "bare", "fasthttp"}
	var sides []*server
	for _, name := range names {
		s, err := start(name)
		if err != nil {
			return err
		}
		defer s.stop()
		sides = append(sides, s)
	}
	if _, err := sides[0].send("PUT", "/items", typeJSON, strings.NewReader(item)); err != nil {
		return err
	}
	speeds, delays := make([][]float64, len(sides)), make([][]float64, len(sides))
	for round := range *rounds {
		for i := range sides {
			i = (i + round) % len(sides)
			out, err := exec.Command("wrk", "-c", "100", "-t", "10", "-d", fmt.Sprint(lasting.Seconds()), "--latency", sides[i].url+"/items/alice").Output()
			if err != nil {
				return err
			}
			speed, delay := perSecond.FindSubmatch(out), late.FindSubmatch(out)
			if speed == nil || delay == nil || bad.Match(out) {
				return fmt.Errorf("wrk printed %s", out)
			}
			n, _ := strconv.ParseFloat(string(speed[1]), 64)
			d, _ := time.ParseDuration(string(delay[1]) + string(delay[2]))
			speeds[i], delays[i] = append(speeds[i], n), append(delays[i], d.Seconds()*1000)
		}
	}
	fmt.Printf("%-10s %12s %10s %10s\n", "get", "requests/s", "p99 ms", "copal is")
	for i, name := range names {
		fmt.Printf("  %-8s %12.0f %10.2f %9.2fx\n", name, median(speeds[i]), median(delays[i]), median(ratios(speeds[0], speeds[i])))
	}
	return nil
}

func ratios(a, b []float64) (list []float64) {
	for i := range a {
		list = append(list, a[i]/b[i])
	}
	return list
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// measureLines puts a map in by lines, and takes it out.
func measureLines() error {
	const n = 200_000
	s, err := start("copal")
	if err != nil {
		return err
	}
	defer s.stop()
	var body bytes.Buffer
	for i := range n {
		fmt.Fprintf(&body, `{"key":"user%d","value":{"Name":"User %d","Age":%d,"Email":"user%d@example.com"}}`+"\n", i, i, i%90, i)
	}
	var in, out []float64
	for range *rounds {
		began := time.Now()
		if _, err := s.send("POST", "/v1/maps/users", typeLines, bytes.NewReader(body.Bytes())); err != nil {
			return err
		}
		in = append(in, n/time.Since(began).Seconds())
		began = time.Now()
		text, err := s.send("GET", "/v1/maps/users", typeLines, nil)
		if err != nil {
			return err
		}
		if got := bytes.Count(text, []byte("\n")); got < n {
			return fmt.Errorf("%d lines came", got)
		}
		out = append(out, n/time.Since(began).Seconds())
	}
	fmt.Printf("lines      %12.0f entries/s in, %.0f out, of %d bytes each\n", median(in), median(out), body.Len()/n)
	return nil
}

const followers = 1000

// measureReaders has connections that get all changes, and a writer.
func measureReaders() error {
	s, err := start("copal")
	if err != nil {
		return err
	}
	defer s.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var told atomic.Int64
	var mu sync.Mutex
	var delays []time.Duration
	var reading sync.WaitGroup
	var failed atomic.Pointer[error]
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}}
	ready := make(chan struct{}, followers)
	for range followers {
		reading.Go(func() {
			err := follow(ctx, client, s.url, ready, func(at time.Time) {
				if told.Add(1)%97 == 0 { // a sample of them
					d := time.Since(at)
					mu.Lock()
					delays = append(delays, d)
					mu.Unlock()
				}
			})
			if err != nil && ctx.Err() == nil {
				failed.Store(&err)
			}
		})
	}
	for range followers {
		<-ready
	}
	write := func(pause time.Duration) (written, events int64, took time.Duration, err error) {
		before, began := told.Load(), time.Now()
		for ; time.Since(began) < *lasting && err == nil; written++ {
			if pause > 0 {
				time.Sleep(pause)
			}
			_, err = s.send("PUT", "/v1/maps/m/k", typeJSON, strings.NewReader(strconv.FormatInt(time.Now().UnixNano(), 10)))
			if pause == 0 { // as fast as events are read
				for told.Load()-before < (written-100)*followers && failed.Load() == nil {
					time.Sleep(time.Millisecond)
				}
			}
		}
		for told.Load()-before < written*followers && failed.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		return written, told.Load() - before, time.Since(began), err
	}
	_, events, took, err := write(0)
	if err != nil {
		return err
	}
	fmt.Printf("readers    %12.0f events/s to %d of them\n", float64(events)/took.Seconds(), followers)
	mu.Lock()
	delays = nil
	mu.Unlock()
	written, _, took, err := write(20 * time.Millisecond)
	if err != nil {
		return err
	}
	cancel()
	reading.Wait()
	if f := failed.Load(); f != nil {
		return *f
	}
	slices.Sort(delays)
	fmt.Printf("  at %.0f writes/s an event comes after %v, 99 of 100 within %v\n", float64(written)/took.Seconds(),
		delays[len(delays)/2].Round(time.Millisecond/10), delays[len(delays)*99/100].Round(time.Millisecond/10))
	return nil
}

// follow reads the events of a stream. The value of each is the time at which it was sent.
func follow(ctx context.Context, client *http.Client, url string, ready chan<- struct{}, got func(at time.Time)) error {
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/changes", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", typeLines)
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	first := true
	in := bufio.NewReaderSize(a.Body, 1024)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first {
			first = false
			ready <- struct{}{}
		}
		_, rest, ok := bytes.Cut(line, []byte(`"value":`))
		if !ok {
			continue
		}
		digits, _, _ := bytes.Cut(rest, []byte("}"))
		n, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return err
		}
		got(time.Unix(0, n))
	}
}
