package chart

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// eyes are how colours look, as matrices of linear red, green and blue: to most people, and to
// those without the cones for red or for green (Machado, Oliveira and Fernandes, 2009).
var eyes = map[string][3][3]float64{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

type rgb [3]float64 // linear

func parseColour(s string) (c rgb) {
	n, _ := strconv.ParseUint(s, 16, 32)
	for i := range c {
		v := float64(n>>(16-8*i)&0xff) / 255
		if c[i] = v / 12.92; v > 0.04045 {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) through(m [3][3]float64) (d rgb) {
	for i := range d {
		d[i] = min(max(m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2], 0), 1)
	}
	return d
}

// lab returns the colour in OKLab, in which distances are as large as they look.
func (c rgb) lab() [3]float64 {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{
		0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// Each colour differs from the paper, and from the others to every eye, the first eight far. So
// many do not all, and groups have marks and dashes, too.
func TestPalette(t *testing.T) {
	const contrast = 3 // the minimum of WCAG for graphics
	light, dark, _ := strings.Cut(svgCSS, "@media")
	for name, css := range map[string]string{"light": light, "dark": dark} {
		paper := parseColour(regexp.MustCompile(`\.paper \{ fill: #(\w+)`).FindStringSubmatch(css)[1])
		found := regexp.MustCompile(`\.k(\d+) \{ color: #(\w{6}); \}`).FindAllStringSubmatch(css, -1)
		if len(found) != colours {
			t.Fatalf("%s: %d colours", name, len(found))
		}
		for i, a := range found {
			if a[1] != strconv.Itoa(i) {
				t.Errorf("%s: colour %d is k%s", name, i, a[1])
			}
			l, p := parseColour(a[2]).luminance(), paper.luminance()
			if ratio := (max(l, p) + 0.05) / (min(l, p) + 0.05); ratio < contrast {
				t.Errorf("%s: k%d has a contrast of %.2f", name, i, ratio)
			}
			least := 0.12 // of OKLab
			if i >= 8 {
				least = 0.05
			}
			for j, b := range found[:i] {
				for eye, m := range eyes {
					x, y := parseColour(a[2]).through(m).lab(), parseColour(b[2]).through(m).lab()
					if d := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); d < least {
						t.Errorf("%s, %s: k%d and k%d are %.3f apart", name, eye, j, i, d)
					}
				}
			}
		}
	}
}
