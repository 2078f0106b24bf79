package chart

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file in testdata, which -update rewrites.
func golden(t *testing.T, name string, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s; look at what -update makes of it. Got\n%s", file, got)
	}
}

func svgOf(t testing.TB, f Figure) string {
	t.Helper()
	var out bytes.Buffer
	if err := f.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sample has two engines and two strategies, a point that the axis cannot show, and a series
// without any.
func sample() *Chart {
	return &Chart{
		Title:    "Read one",
		Subtitle: "median of 5, N/2 reads at random",
		X:        Axis{Label: "records", Log: true},
		Y:        Axis{Label: "time per record", Unit: Nanoseconds, Log: true},
		Series: []Series{
			{"copal json", "json", "copal", []Point{{10, 900, 850, 1100}, {100, 1000, 950, 1020}, {1000, 1234, 1200, 1300}}},
			{"copal binary", "binary", "copal", []Point{{1000, 450, 440, 460}, {10, 300, 0, 0}, {100, 0, 0, 0}}},
			{"bbolt json", "json", "bbolt", []Point{{10, 2000, 1900, 2500}, {100, 5000, 0, 5500}, {1000, math.NaN(), 0, 0}}},
			{"bbolt binary", "binary", "bbolt", nil},
		},
	}
}

func sampleBars() *Bars {
	return &Bars{
		Title: "copal against bbolt", Subtitle: "time of bbolt over time of copal",
		Below: "copal slower", Above: "copal faster",
		Bars: []Bar{
			{"Get", 4.2, 4, 4.5, "150 ns against 630 ns"},
			{"Set, each synced", 0.8, 0, 0, ""},
			{"Range", 1, 0.9, 1.1, ""},
			{"not measured", 0, 0, 0, ""},
		},
	}
}

func TestGolden(t *testing.T) {
	golden(t, "chart.svg", svgOf(t, sample()))
	golden(t, "bars.svg", svgOf(t, sampleBars()))
	golden(t, "page.html", pageOf(t, samplePage()))
}

// texts returns the texts of an SVG, and its titles. The decoder is strict, so they are also
// well-formed.
func texts(t *testing.T, svg string) (texts []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for inside := ""; ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch k := token.(type) {
		case xml.StartElement:
			inside = k.Name.Local
		case xml.EndElement:
			inside = ""
		case xml.CharData:
			if inside == "text" || inside == "title" {
				texts = append(texts, string(k))
			}
		}
	}
}

func TestPointsTellWhatTheyAre(t *testing.T) {
	got := texts(t, svgOf(t, sample()))
	for _, want := range []string{
		"Read one", "median of 5, N/2 reads at random", "records", "time per record", "500 ns", "5 µs", "1 k",
		"copal json\nrecords: 10\n900 ns (850 ns – 1.1 µs)\n3× the best here",
		"copal json\nrecords: 100\n1 µs (950 ns – 1.02 µs)\nthe best here",
		"copal binary\nrecords: 1 k\n450 ns (440 ns – 460 ns)\nthe best here",
		"bbolt json\nrecords: 100\n5 µs (0 ns – 5.5 µs)\n5× the best here",
		"bbolt binary",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if all := strings.Join(got, "\n"); strings.Count(all, "best here") != 7 {
		t.Errorf("of the 7 points that have a place, these say what they are:\n%s", all)
	}
}

var (
	linePath = regexp.MustCompile(`class="line m(\d)" d="([^"]*)"`)
	pointAt  = regexp.MustCompile(`class="p" transform="translate\(([-\d.]+) ([-\d.]+)\)"`)
	viewBox  = regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`)
)

// The line of copal binary ends before 100, where nothing is measured, and begins again: no line
// goes through missing points.
func TestLinesBreak(t *testing.T) {
	paths := linePath.FindAllStringSubmatch(svgOf(t, sample()), -1)
	var forms []string
	for _, p := range paths[:3] {
		forms = append(forms, regexp.MustCompile(`[^MLh]`).ReplaceAllString(p[2], ""))
	}
	if got := strings.Join(forms, " "); got != "MLL MM ML" {
		t.Errorf("the lines are %q", got)
	}
}

// For any values, each number of a drawing is finite, and no point lies outside.
func TestOddValues(t *testing.T) {
	odd := []float64{0, -1, 1, 5e-324, 1e-300, 1e300, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, log := range []bool{true, false} {
		for _, x := range odd {
			for _, y := range odd {
				for _, spread := range odd {
					for _, other := range [][]Point{nil, {{10, 100, 90, 110}}} {
						c := &Chart{X: Axis{Log: log}, Y: Axis{Log: log, Unit: Bytes}, Series: []Series{
							{Name: "a", Points: []Point{{x, y, y, spread}}}, {Name: "b", Points: other}, {Name: "none"}}}
						b := &Bars{Bars: []Bar{{Value: y, Min: x, Max: spread}}}
						var d drawing // of a section alone: it has all the numbers of a page
						(&Section{Figures: []Figure{c, b}}).write(&d)
						checkNumbers(t, d.String())
						if t.Failed() {
							t.Fatalf("log %v: the point is %v %v, up to %v", log, x, y, spread)
						}
					}
				}
			}
		}
	}
	checkNumbers(t, svgOf(t, &Chart{}))
	checkNumbers(t, svgOf(t, &Bars{}))
}

func checkNumbers(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("no number in\n%s", text)
	}
	for svg := range strings.SplitSeq(text, "<svg ") {
		box := viewBox.FindStringSubmatch(svg) // of the first piece, which has no points, none
		for _, p := range pointAt.FindAllStringSubmatch(svg, -1) {
			if x, y := number(p[1]), number(p[2]); x < 0 || x > number(box[1]) || y < 0 || y > number(box[2]) {
				t.Errorf("a point at %s %s of %s %s", p[1], p[2], box[1], box[2])
			}
		}
	}
}

func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// A point of which the axis has no place is not drawn: these six of eight.
func TestLeftOut(t *testing.T) {
	c := &Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{Name: "a", Points: []Point{
		{X: 1, Y: 1}, {X: 2, Y: 0}, {X: 3, Y: -1}, {X: 0, Y: 1}, {X: 4, Y: math.NaN()}, {X: math.Inf(1), Y: 1}, {X: 5, Y: math.Inf(1)}, {X: 6, Y: 2}}}}}
	for log, want := range map[bool]int{true: 2, false: 5} {
		c.X.Log, c.Y.Log = log, log
		if got := strings.Count(svgOf(t, c), "<title>"); got != want {
			t.Errorf("log %v: %d points, want %d", log, got, want)
		}
	}
}

// A value that is no number is no end of a spread.
func TestSpreadLeftOut(t *testing.T) {
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, p := range []Point{{1, 5, odd, 6}, {1, 5, 4, odd}} {
			c := &Chart{Y: Axis{Log: true}, Series: []Series{{Name: "a", Points: []Point{p}}}}
			if svg := svgOf(t, c); !strings.Contains(svg, `class="spread" d=""`) || strings.Contains(svg, none) {
				t.Errorf("%v is drawn with a spread", p)
			}
		}
	}
}

// There is no ratio to a best of zero, nor to one below it.
func TestNoRatio(t *testing.T) {
	for _, best := range []float64{0, -1} {
		c := &Chart{Series: []Series{{Name: "a", Points: []Point{{1, best, 0, 0}}}, {Name: "b", Points: []Point{{1, 3, 0, 0}}}}}
		if got := texts(t, svgOf(t, c)); !slices.Contains(got, "b\n1\n3") {
			t.Errorf("beside a best of %v: %q", best, got)
		}
	}
}

// Half is as long as double, to the other side, and 1 is inside wherever the bars are.
func TestBars(t *testing.T) {
	rect := regexp.MustCompile(`class="bar (\w+)"><rect x="([-\d.]+)" y="[-\d.]+" width="([\d.]+)"`)
	got := rect.FindAllStringSubmatch(svgOf(t, &Bars{Bars: []Bar{{Value: 0.5}, {Value: 2}, {Value: 1}, {Value: math.Inf(1)}, {Value: -1}}}), -1)
	if len(got) != 3 || got[0][1] != "below" || got[1][1] != "above" || got[2][1] != "above" {
		t.Fatalf("bars: %q", got)
	}
	if math.Abs(number(got[0][3])-number(got[1][3])) > 0.11 || got[2][3] != "0" {
		t.Errorf("half, double and one are %s, %s and %s long", got[0][3], got[1][3], got[2][3])
	}
	for _, v := range []float64{50, 1.0 / 50} {
		bar := rect.FindStringSubmatch(svgOf(t, &Bars{Bars: []Bar{{Value: v}}}))
		if left := number(bar[2]); left < margin || left+number(bar[3]) > width-margin {
			t.Errorf("the bar of %v begins at %s and is %s long", v, bar[2], bar[3])
		}
	}
}

// The names are in the order in which the lines end.
func TestLegendFollowsLines(t *testing.T) {
	c := &Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{
		{Name: "middle", Points: []Point{{1, 1, 0, 0}, {9, 20, 0, 0}}}, {Name: "none"},
		{Name: "low", Points: []Point{{9, 10, 0, 0}, {1, 90, 0, 0}}}, {Name: "high", Points: []Point{{1, 30, 0, 0}}}}}
	got := texts(t, svgOf(t, c))
	if got = got[len(got)-4:]; !slices.Equal(got, []string{"high", "middle", "low", "none"}) {
		t.Errorf("the legend reads %q", got)
	}
}

// Twenty lines that end in the same place, and one that has no end: the names lie apart, beside the
// lines, and inside.
func TestLegendDoesNotOverlap(t *testing.T) {
	for _, n := range []int{1, 2, 16, 21, 40} {
		c := &Chart{X: Axis{Log: true}, Y: Axis{Log: true}}
		for i := range n {
			c.Series = append(c.Series, Series{Name: strings.Repeat("long name ", 20) + fmt.Sprint(i), Points: []Point{{1, 2, 0, 0}, {1e6, 2 + float64(i%2)/1000, 0, 0}}})
		}
		c.Series = append(c.Series, Series{Name: "empty"})
		svg := svgOf(t, c)
		checkNumbers(t, svg)
		height := number(viewBox.FindStringSubmatch(svg)[2])
		last := 60.0
		names := regexp.MustCompile(`class="name" x="([\d.]+)" y="([\d.]+)">([^<]*)<`).FindAllStringSubmatch(svg, -1)
		for _, m := range names {
			if y := number(m[2]); y < last+legendPitch-0.2 || y > height-chartBottom+2 {
				t.Errorf("%d series: a name at %v, the one before at %v, the height is %v", n, y, last, height)
			} else {
				last = y
			}
			for _, p := range linePath.FindAllStringSubmatch(svg, n) {
				if right := number(regexp.MustCompile(`L([\d.]+)`).FindStringSubmatch(p[2])[1]); right+sampleWidth > number(m[1]) {
					t.Errorf("a line goes to %v, and a name begins at %s", right, m[1])
				}
			}
			if end := number(m[1]) + wide*float64(len([]rune(m[3]))); end > width-8 {
				t.Errorf("%q ends at %v", m[3], end)
			}
		}
		if len(names) != n+1 || names[n][3] != "empty" {
			t.Errorf("%d series: the names are %v", n, names)
		}
	}
}

var seriesLook = regexp.MustCompile(`<g class="s (k\d+)" data-s="\d+">\n<path class="spread" d="[^"]*"/><path class="line (m\d)"`)

// Engines share a dash and strategies a colour, and the charts that name them all agree.
func TestColoursAndDashes(t *testing.T) {
	look := func(c *Chart) (looks []string) {
		for _, m := range seriesLook.FindAllStringSubmatch(svgOf(t, c), -1) {
			looks = append(looks, m[1]+m[2])
		}
		return looks
	}
	c := sample()
	c.Series[3].Points = c.Series[0].Points
	if got := look(c); !slices.Equal(got, []string{"k0m0", "k1m0", "k0m1", "k1m1"}) {
		t.Errorf("looks: %v", got)
	}
	c.Series = c.Series[3:]
	c.Kinds, c.Groups = []string{"json", "binary"}, []string{"copal", "bbolt"}
	if got := look(c); !slices.Equal(got, []string{"k1m1"}) {
		t.Errorf("looks of one alone: %v", got)
	}
	c.Series = nil
	for i := range 30 {
		name := fmt.Sprint(i)
		c.Series = append(c.Series, Series{name, "", name, []Point{{1, 1, 0, 0}}})
	}
	if got := look(c); got[0] != "k2m2" || got[9] != "k11m5" || got[10] != "k0m0" {
		t.Errorf("looks of many: %v", got)
	}
}

// Nothing depends on the order of a map or on earlier drawings, and drawing leaves the input
// unchanged.
func TestSameBytes(t *testing.T) {
	first := pageOf(t, samplePage())
	page := samplePage()
	for range 50 {
		if pageOf(t, page) != first {
			t.Fatal("the same page in other bytes")
		}
	}
	c := sample()
	slices.Reverse(c.Series[0].Points)
	if svgOf(t, c) != svgOf(t, sample()) {
		t.Error("the order of the points shows")
	}
}

func TestNumbers(t *testing.T) {
	got := sample().Numbers()
	want := Table{
		Header: []string{"records", "10", "100", "1 k"},
		Rows: [][]string{
			{"copal json", "900 ns\n850 ns – 1.1 µs", "1 µs\n950 ns – 1.02 µs", "1.23 µs\n1.2 µs – 1.3 µs"},
			{"copal binary", "300 ns", "0 ns", "450 ns\n440 ns – 460 ns"},
			{"bbolt json", "2 µs\n1.9 µs – 2.5 µs", "5 µs\n0 ns – 5.5 µs", "–"},
			{"bbolt binary", "", "", ""},
		},
		Best: []Cell{{0, 2}, {1, 3}, {1, 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	bars := sampleBars().Numbers()
	if got, want := fmt.Sprintf("%q", bars.Rows[:2]), `[["Get" "4.2×" "4×" "4.5×" "150 ns against 630 ns"] ["Set, each synced" "0.8×" "–" "–" ""]]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
