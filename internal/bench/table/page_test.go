package table

import (
	"bytes"
	"strings"
	"testing"
)

// The page has each group, the losses before them, and lines where values have lengths.
func TestPage(t *testing.T) {
	r := sample()
	for i, line := range []string{"values/get/128B/1k", "values/get/8192B/1k"} {
		us := figure{"copal", float64(100 * (i + 1)), []float64{float64(100 * (i + 1))}}
		for _, them := range []figure{{"bbolt", 300, []float64{300}}, {"bbolt, lent", 50, []float64{50}}} {
			r.Rows = append(r.Rows, Row{Line: line, Group: "Values", Title: line[11:15], Metric: "time per operation", Unit: nanoseconds, Ours: us, Against: &them})
		}
	}
	lost := r.losses()
	if len(lost) != 3 || lost[0].Line != "values/get/8192B/1k" || lost[1].Line != "values/get/128B/1k" || lost[2].Line != "n" {
		t.Errorf("losses: %+v", lost)
	}
	c := byLength(r.Rows[len(r.Rows)-4:])
	if len(c.Series) != 3 || c.Series[0].Name != "copal" || c.Series[2].Kind != "bbolt" || c.Series[2].Group != "lent" {
		t.Fatalf("series: %+v", c.Series)
	}
	if p := c.Series[0].Points; len(p) != 2 || p[1].X != 8192 || p[1].Y != 200 {
		t.Errorf("points: %+v", p)
	}
	if c := byLength(r.Rows[:1]); c != nil {
		t.Errorf("%+v", c)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{"copal is ahead in", "linux/amd64, 2 CPUs", "Warning: tmpfs", "What copal loses", "bbolt, lent 50 ns", "<h2>Reads of something", "copal loses", "copal alone", "<h2>Values", "length of a value"} {
		i := strings.Index(page.String()[at:], want)
		if i < 0 {
			t.Fatalf("%q is not there, or before others:\n%s", want, page.String())
		}
		at += i
	}
}
