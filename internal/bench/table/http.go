package table

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/httpapi"
)

// httpLines: the cost of an HTTP request.
func httpLines(s setting) []line {
	var lines []line
	for _, method := range []string{"GET", "PUT"} {
		lines = append(lines, line{
			name:  "http/" + method,
			group: fmt.Sprintf("HTTP, %d clients, one of 1,000 items, in the log when answered; a bare handler of net/http keeps them in a map", clients),
			rows:  []versus{{title: method + " of an item", ours: "copal", theirs: []string{"net/http"}, metric: perOp, goal: goal{sense: more}}},
			setup: func(e *env) ([]side, error) {
				n := min(s.keys, 1000)
				return httpSides(e, method, makeKeys(n), shuffled(n, s.ops/6))
			},
		})
	}
	return lines
}

// httpSides returns the sides of a line of HTTP: the items of a store, and those that a handler has
// in a map.
func httpSides(e *env, method string, keys []string, order []int32) (sides []side, err error) {
	db, err := copal.Open(e.path("copal"))
	if err != nil {
		return nil, err
	}
	e.after(db.Close)
	for _, name := range []string{"copal", "net/http"} {
		server := &http.Server{Handler: bareHandler()}
		if name == "copal" {
			server.Handler = httpapi.Handler(db)
		}
		address, err := serve(e, server.Serve, http.ErrServerClosed, server.Shutdown)
		if err != nil {
			return nil, err
		}
		free, err := connect(e, address)
		if err != nil {
			return nil, err
		}
		if _, err := parallel(clients, shuffled(len(keys), len(keys)), func(part []int32) error { return httpPuts(free, keys, part, 0) }); err != nil {
			return nil, err
		}
		w := workload{name: name, workers: clients, order: order}
		switch method {
		case "PUT":
			w.loop = func(round int, part []int32) error { return httpPuts(free, keys, part, round) }
			w.check = func(round int) error { return httpGets(free, keys, spots(order), round) }
		default:
			w.loop = func(_ int, part []int32) error { return httpGets(free, keys, part, 0) }
		}
		sides = append(sides, w.side())
	}
	return sides, nil
}

// bareHandler answers as a program would that has nothing but a map.
func bareHandler() http.Handler {
	var mu sync.RWMutex // guards items
	items := map[string]json.RawMessage{}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /items", func(w http.ResponseWriter, r *http.Request) {
		var item struct {
			ID    string          `json:"id"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.NewDecoder(r.Body).Decode(&item); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		items[item.ID] = item.Value
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		mu.RLock()
		value, ok := items[id]
		mu.RUnlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		answer := fmt.Appendf(nil, `{"id":%q,"value":%s}`, id, value)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.Write(answer)
	})
	return mux
}

// httpPuts puts items with their values of a round.
func httpPuts(free chan *connection, keys []string, part []int32, round int) error {
	return requests(free, part, http.StatusCreated, func(dst []byte, i int32) []byte {
		item := fmt.Sprintf(`{"id":"%s","value":%s}`, keys[i], personJSON(i, round))
		return fmt.Appendf(dst, "PUT /items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(item), item)
	}, func(int32) string { return "" })
}

// httpGets gets items, which have their values of a round.
func httpGets(free chan *connection, keys []string, part []int32, round int) error {
	return requests(free, part, http.StatusOK, func(dst []byte, i int32) []byte {
		return fmt.Appendf(dst, "GET /items/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", keys[i])
	}, func(i int32) string { return personJSON(i, round) })
}

func personJSON(i int32, round int) string {
	p := personOf(i, round)
	return fmt.Sprintf(`{"Name":"%s","Age":%d,"Score":%d}`, p.Name, p.Age, int(p.Score))
}

// requests sends a request after the other. Each answer has the status, and the text.
func requests(free chan *connection, part []int32, status int, request func(dst []byte, i int32) []byte, text func(i int32) string) error {
	c := <-free
	defer func() { free <- c }()
	for _, i := range part {
		c.out = request(c.out[:0], i)
		if _, err := c.Write(c.out); err != nil {
			return err
		}
		answer, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		if want := text(i); answer.StatusCode != status || !strings.Contains(string(body), want) {
			return wrong(i, answer.Status+" "+string(body), want)
		}
	}
	return nil
}
