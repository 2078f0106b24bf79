package table

import "github.com/copaldb/copal"

// uncached returns the option that leaves no value in memory.
func uncached() []copal.Option { return []copal.Option{copal.WithMaxMemory(1)} }

// uncachedLines: the cost of a read when the value has to be fetched from the log and decoded.
func uncachedLines(s setting) []line {
	var lines []line
	for _, n := range []int{s.keys, s.manyKeys} {
		for _, workers := range []int{1, many} {
			l := getLine(s, n, workers, atMost(1.0).dreaming(0.7))
			l.setup = func(e *env) ([]side, error) { return getSides(e, s, n, workers, uncached(), nil) }
			l.name = "get/miss/" + l.name
			l.group = "Get of a 3-field struct, no value in the cache, against sync.Map.Load"
			lines = append(lines, l)
		}
	}
	return lines
}
