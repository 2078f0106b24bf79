package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// manual is docs/http.md with the parts that are made of tables, each behind its mark and before the next heading.
func manual(page string) string {
	var groups []string
	for _, r := range routes {
		if !slices.Contains(groups, r.group) {
			groups = append(groups, r.group)
		}
	}
	for _, group := range groups {
		made := "| route | effect | takes | answers |\n|---|---|---|---|\n"
		for _, r := range routes {
			if r.group != group {
				continue
			}
			takes := ""
			for _, name := range r.takes {
				takes += "`" + name + "` "
			}
			made += fmt.Sprintf("| `%s %s` | %s | %s | %s |\n", r.method, r.path, r.does, strings.TrimSpace(takes), strings.Trim(fmt.Sprint(r.status), "[]"))
		}
		page = replacePart(page, group, made)
	}
	made := ""
	for _, k := range kinds {
		made += fmt.Sprintf("### %s\n\n**%d %s.** %s\n\n", strings.ReplaceAll(k.slug, "-", " "), k.status, k.title, k.means)
	}
	return replacePart(page, "Problems", strings.TrimSuffix(made, "\n"))
}

// replacePart replaces the text after a mark, up to an empty line, or for the last mark to the end.
func replacePart(page, name, made string) string {
	mark := "<!-- " + name + " -->\n\n"
	before, after, ok := strings.Cut(page, strings.TrimSuffix(mark, "\n"))
	if !ok {
		return page + "there is no mark " + name
	}
	rest := ""
	if name != "Problems" {
		after = strings.TrimPrefix(after, "\n")
		for strings.HasPrefix(after, "|") {
			_, after, _ = strings.Cut(after, "\n")
		}
		rest = "\n" + strings.TrimPrefix(after, "\n")
	}
	return before + mark + made + rest
}

// docs/http.md has the tables of the routes and of the problems. With COPAL_WRITE=1 the test writes them.
func TestManual(t *testing.T) {
	path := filepath.Join("..", "docs", "http.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	made := manual(string(text))
	if os.Getenv("COPAL_WRITE") == "1" {
		if err := os.WriteFile(path, []byte(made), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if made != string(text) {
		t.Error("docs/http.md does not have what the tables say, from which COPAL_WRITE=1 makes it")
	}
}

// The address in a problem is a heading of the page.
func TestProblemsHaveHeadings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.slug] || !strings.Contains(string(text), "\n### "+strings.ReplaceAll(k.slug, "-", " ")+"\n") {
			t.Errorf("%s has no heading of its own", k.slug)
		}
		seen[k.slug] = true
	}
}

var (
	console = regexp.MustCompile("(?s)```console\n(.*?)```")
	times   = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[\d:.]+Z"`)
	sums    = regexp.MustCompile(`"crc32c":"[0-9a-f]{8}"`)
)

// The examples of docs/http.md have the answers of the server.
func TestManualExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t)
	n := 0
	for _, block := range console.FindAllStringSubmatch(string(text), -1) {
		for example := range strings.SplitSeq("\n"+block[1], "\n$ curl ") {
			if strings.TrimSpace(example) == "" {
				continue
			}
			n++
			words, want := shellWords(t, example)
			got := p.curl(words)
			plainly := func(text string) string {
				return strings.TrimRight(sums.ReplaceAllString(times.ReplaceAllString(text, `"TIME"`), `"crc32c":"SUM"`), "\n")
			}
			if plainly(got) != plainly(want) {
				t.Errorf("curl %s\n got %q\nwant %q", words, got, want)
			}
		}
	}
	if n < 15 {
		t.Errorf("there are %d examples", n)
	}
}

// shellWords returns the words of a command, and the text after its line.
func shellWords(t *testing.T, text string) (words []string, rest string) {
	word, within := "", false
	quoted := false
	for i, c := range text {
		switch {
		case c == '\'':
			quoted, within = !quoted, true
		case quoted:
			word += string(c)
		case c == ' ' || c == '\n':
			if within {
				words = append(words, word)
			}
			if word, within = "", false; c == '\n' {
				return words, text[i+1:]
			}
		default:
			word, within = word+string(c), true
		}
	}
	if within {
		words = append(words, word)
	}
	return words, ""
}

// curl does the work of curl, for the words of a command.
func (p *peer) curl(words []string) string {
	method, address, body, shows, ends := "", "", "", false, false
	header := http.Header{}
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-X":
			i++
			method = words[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			body = words[i]
			if method == "" {
				method = "POST"
			}
		case "-i":
			shows = true
		case "-m":
			i++
			ends = true
		default:
			address = words[i]
		}
	}
	r := httptest.NewRequest(cmpOr(method, "GET"), "http://"+address, strings.NewReader(body))
	for name, list := range header {
		r.Header[name] = list
	}
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", typeForm)
	}
	if ends {
		return p.curlFor(r)
	}
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	a := w.Result()
	out := ""
	if shows {
		out = "HTTP/1.1 200 OK\n"
		for _, name := range []string{"Content-Type", "Etag"} {
			out += name + ": " + a.Header.Get(name) + "\n"
		}
		out += "\n"
	}
	if text := w.Body.String(); text != "" {
		out += strings.TrimSuffix(text, "\n") + "\n"
	}
	return out
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// curlFor is curl of a stream, until nothing more comes at once.
func (p *peer) curlFor(r *http.Request) (out string) {
	synctest.Test(p.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.h.ServeHTTP(w, r.WithContext(ctx))
		}()
		synctest.Wait()
		cancel()
		<-done
		out = w.Body.String()
	})
	return out
}
