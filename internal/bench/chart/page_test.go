package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func pageOf(t testing.TB, p Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func samplePage() Page {
	return Page{
		Title: "The study",
		Lead:  []string{"Encodings of a record, compared.", "Less is better."},
		Sections: []Section{
			{Heading: "Reading", Text: []string{"One at a time."}, Figures: []Figure{sample()}},
			{Heading: "Ratios", Figures: []Figure{sampleBars()}, Tables: []Table{{
				Caption: "Where it was measured",
				Header:  []string{"machine", "system", "cores", "memory"},
				Rows:    [][]string{{"a", "linux", "2", "4 GB"}, {"b", "linux", "16", "–"}, {"c", "", "", ""}},
				Best:    []Cell{{1, 2}},
			}}},
		},
	}
}

func TestTables(t *testing.T) {
	page := pageOf(t, samplePage())
	for _, want := range []string{
		`<caption>Where it was measured</caption>`,
		`<tr><th scope="col">machine</th><th scope="col">system</th><th scope="col" class="n">cores</th><th scope="col" class="n">memory</th></tr>`,
		`<tr><th scope="row">b</th><td>linux</td><td class="n"><b>16</b></td><td class="n">–</td></tr>`,
		`<td class="n">900 ns<small>850 ns – 1.1 µs</small></td>`,
		`<td class="n"><b>300 ns</b></td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := strings.Count(page, "<details>"); n != 2 {
		t.Errorf("%d figures have their numbers below", n)
	}
}

// evil would end any element around it, if it were not escaped.
const evil = "\"'</title></style></script>&<i>\x00\x1b\xff]]>"

// Every text of a page is text, wherever it is.
func TestTextIsEscaped(t *testing.T) {
	n := 0
	text := func() string {
		n++
		return fmt.Sprintf("%s%d.", evil, n)
	}
	c := &Chart{Title: text(), Subtitle: text(), X: Axis{Label: text()}, Y: Axis{Label: text()},
		Series: []Series{{Name: text(), Points: []Point{{1, 1, 0, 0}}}}}
	b := &Bars{Title: text(), Subtitle: text(), Below: text(), Above: text(), Bars: []Bar{{Name: text(), Value: 1, Note: text()}}}
	page := pageOf(t, Page{Title: text(), Lead: []string{text()}, Sections: []Section{{}, {
		Heading: text(), Text: []string{text()}, Figures: []Figure{c, b},
		Tables: []Table{{Caption: text(), Header: []string{text(), text()}, Rows: [][]string{{text(), text() + "\n" + text()}}, Best: []Cell{{0, 1}}}},
	}}})
	for i := range n {
		if want := fmt.Sprintf("&lt;/script&gt;&amp;&lt;i&gt;\ufffd\ufffd\ufffd]]&gt;%d.", i+1); !strings.Contains(page, want) {
			t.Errorf("text %d is missing", i+1)
		}
	}
	for _, end := range []string{"<i>", "\x00", "\x1b", "\xff"} {
		if strings.Contains(page, end) {
			t.Errorf("the page contains %q", end)
		}
	}
	for tag, want := range map[string]int{"</title>": 1 + 2, "</style>": 1, "</script>": 1} {
		if got := strings.Count(page, tag); got != want {
			t.Errorf("%d %s, want %d", got, tag, want)
		}
	}
	for _, f := range []Figure{c, b} {
		if got := texts(t, svgOf(t, f)); !strings.Contains(got[0], `"'</title>`) {
			t.Errorf("the title of the figure reads %q", got[0])
		}
	}
}

var (
	reference = regexp.MustCompile(`(?:href|src|action|srcset|poster|data)="([^"]*)"`)
	outside   = regexp.MustCompile(`url\(|@import|@font-face|fetch|XMLHttp|WebSocket|EventSource|sendBeacon|import\(|https?:`)
)

// A page asks for nothing: no reference leaves the file, and the policy forbids references that a
// test might miss.
func TestPageAsksForNothing(t *testing.T) {
	page := strings.ReplaceAll(pageOf(t, samplePage()), `xmlns="http://www.w3.org/2000/svg"`, "")
	if found := outside.FindString(page); found != "" {
		t.Errorf("the page contains %q", found)
	}
	for _, m := range reference.FindAllStringSubmatch(page, -1) {
		if m[1] != "data:," && !strings.HasPrefix(m[1], "#s") {
			t.Errorf("the page refers to %q", m[1])
		}
	}
	if !strings.Contains(page, `<meta http-equiv="Content-Security-Policy" content="default-src 'none';`) {
		t.Error("the page has no policy")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestWriteErrors(t *testing.T) {
	p := samplePage()
	for _, err := range []error{p.WriteHTML(failing{}), sample().WriteSVG(failing{}), sampleBars().WriteSVG(failing{})} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("the error is %v", err)
		}
	}
}

// play acts as a reader, and records the visible result.
const play = `<script>
const said = [], note = (x) => said.push(String(x))
const svg = document.querySelector("svg"), tip = document.querySelector("#tip")
const first = () => tip.textContent.split("\n").slice(0, 2).join(", ")
const hidden = () => [...svg.querySelectorAll(".s")].map(s => getComputedStyle(s).display === "none" ? 1 : 0).join("")
const entries = [...svg.querySelectorAll(".e")], name = (e) => e.querySelector("text").textContent
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))
const buttons = [...document.querySelectorAll("button")]

note("titles " + document.querySelectorAll("svg title").length)
const p = svg.querySelectorAll(".s .p")[1].getBoundingClientRect()
svg.dispatchEvent(new PointerEvent("pointermove", { clientX: p.x + 8, clientY: p.y + 5, bubbles: true }))
note(tip.textContent)
note("lit " + [...svg.querySelectorAll(".on")].map(e => e.getAttribute("class")).join("; "))
svg.dispatchEvent(new PointerEvent("pointermove", { clientX: 1, clientY: 1, bubbles: true }))
note("far: " + first())

for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "Escape"]) {
	press(svg, key)
	note(key + ": " + first())
}

entries[0].dispatchEvent(new MouseEvent("click", { bubbles: true }))
note(name(entries[0]) + " off: " + hidden() + " " + entries[0].getAttribute("aria-pressed"))
press(entries[1], "Enter")
note(name(entries[1]) + " off: " + hidden())
press(entries[0], " ")
note(name(entries[0]) + " on: " + hidden() + " " + entries[0].getAttribute("aria-pressed"))
buttons[1].click()
note(buttons[1].textContent + ": " + hidden())
press(svg, "ArrowRight")
note("nothing is shown: " + first())
buttons[0].click()
note(buttons[0].textContent + ": " + hidden() + ", of " + buttons.length + " buttons")

const bars = document.querySelectorAll("svg")[1]
for (const key of ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"]) {
	press(bars, key)
	note("bars: " + first())
}
document.title = "said" + JSON.stringify(said) + "so"
</script>`

// The script of a page, in a browser.
func TestPageInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: there is no chromium")
	}
	if testing.Short() {
		t.Skip("skipped: a browser takes its time")
	}
	profile, err := os.MkdirTemp("", "copal-browser-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // its children may write there yet
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(strings.Replace(pageOf(t, samplePage()), "</body>", play+"</body>", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--window-size=1000,3000", "--dump-dom", "file://"+file)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`<title>said(.*)so</title>`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("the script did not come to its end:\n%s", out)
	}
	var said []string
	if err := json.Unmarshal(bytes.ReplaceAll(m[1], []byte("&amp;"), []byte("&")), &said); err != nil {
		t.Fatal(err)
	}
	golden(t, "browser.txt", strings.Join(said, "\n")+"\n")
}
