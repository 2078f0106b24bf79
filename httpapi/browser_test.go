package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

const followingPage = `<!DOCTYPE html>
<title>changes</title>
<h1>Orders</h1><p id="state">connecting</p><ol id="list"></ol>
<script>
const seen = []
let opens = 0
const source = new EventSource("/v1/maps/orders/changes?since=0")
source.onopen = () => { opens++; state.textContent = "open" }
source.onerror = () => { state.textContent = "lost, coming back" }
source.onmessage = event => {
	for (const change of JSON.parse(event.data).changes) {
		seen.push(change.value)
		fetch("/saw", { method: "POST", body: change.value })
		const item = document.createElement("li")
		item.textContent = change.op + " " + change.key + " " + JSON.stringify(change.value)
		list.prepend(item)
		if (change.key === "last") {
			source.close()
			fetch("/seen", { method: "POST", body: JSON.stringify({ seen, opens }) })
		}
	}
}
</script>`

// An EventSource in a browser sees each change once, also when the server is killed and comes back.
func TestEventSourceInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: there is no chromium")
	}
	if testing.Short() {
		t.Skip("skipped: a browser takes its time")
	}
	dir := filepath.Join(t.TempDir(), "store")
	told := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, followingPage)
	})
	mux.HandleFunc("POST /seen", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- body
	})
	saw := make(chan int, 1000)
	mux.HandleFunc("POST /saw", func(_ http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Fscan(r.Body, &n)
		saw <- n
	})
	address, n, last := "127.0.0.1:0", 0, 3
	for life := range last + 1 {
		db, err := copal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		handler := Handler(db)
		served := http.NewServeMux()
		for _, path := range []string{"/page", "/seen", "/saw"} {
			served.Handle(path, mux)
		}
		served.Handle("/v1/", handler)
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		s := &http.Server{Handler: served}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		if life == 0 {
			profile, err := os.MkdirTemp("", "copal-browser-")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
				"--user-data-dir="+profile, "--remote-debugging-port=0", "http://"+address+"/page")
			cmd.WaitDelay = time.Minute
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
				os.RemoveAll(profile) // its children may write there yet
			}()
		}
		orders, err := copal.OpenMap[string, int](db, "orders")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			n++
			key := fmt.Sprint(n)
			if life == last && i == 49 {
				key = "last"
			}
			if err := orders.Set(key, n); err != nil {
				t.Fatal(err)
			}
		}
		for life < last && <-saw < n-25 { // some of these are on their way when the server ends
		}
		if life == last {
			var got struct {
				Seen  []int
				Opens int
			}
			if err := json.Unmarshal(<-told, &got); err != nil {
				t.Fatal(err)
			}
			for i, value := range got.Seen {
				if value != i+1 {
					t.Fatalf("change %d is %d: %v", i+1, value, got.Seen)
				}
			}
			if len(got.Seen) != n || got.Opens != last+1 {
				t.Errorf("%d of %d changes, by %d connections", len(got.Seen), n, got.Opens)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
