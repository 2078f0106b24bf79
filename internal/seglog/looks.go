package seglog

// Looks are those at a log that another process, or compaction, changes meanwhile: what the manifest names may
// be gone by the time we look for it, and then the next manifest names others. What is there, and damaged, is
// so at every look, and the last two have the same to say.
type Looks struct {
	n    int
	told string
}

// mostLooks bounds them, should damage be another each time.
const mostLooks = 1000

// Again reports whether it is worth looking again after an error.
func (l *Looks) Again(err error) bool {
	same := err.Error() == l.told
	l.n, l.told = l.n+1, err.Error()
	return l.n < 3 || !same && l.n < mostLooks
}
