package tidy

import (
	"go/parser"
	"regexp"
	"strings"
	"testing"
)

// hard finds phrases that readers stumble over. CONTRIBUTING.md, Words, has the alternatives.
var hard = regexp.MustCompile(`\b[Ww]ho (has|is|sets|writes|reads|waits|comes|enters|keeps|looks|opens|asks|wants|does|takes|finds|holds)\b` +
	`|\blikewise\b|\bits kin\b|\bbut not that\b|\bthat of\b|\bwhat is there\b`)

// mostHard is how many of them are left in comments and in docs/. It only goes down.
const mostHard = 23

func TestWordsArePlain(t *testing.T) {
	var found []string
	look := func(place, text string) {
		for _, phrase := range hard.FindAllString(strings.Join(strings.Fields(text), " "), -1) {
			found = append(found, place+": "+phrase)
		}
	}
	walkGo(t, parser.ParseComments|parser.SkipObjectResolution, func(f goFile) {
		for _, group := range f.Comments {
			look(f.set.Position(group.Pos()).String(), group.Text())
		}
	})
	walk(t, ".md", func(name string, text []byte) {
		if strings.HasPrefix(name, "docs/") {
			look(name, inlineCode.ReplaceAllString(fenced.ReplaceAllString(string(text), ""), ""))
		}
	})
	if len(found) > mostHard {
		t.Errorf("%d hard phrases, %d before; write %d of these anew:\n%s",
			len(found), mostHard, len(found)-mostHard, strings.Join(found, "\n"))
	}
}
