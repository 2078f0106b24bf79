package seglog

// Looks counts the attempts to read a log that another process, or compaction, changes meanwhile: a
// file that the manifest names may be gone when it is opened, and then the next manifest names
// another. Real damage is found at every attempt, so the last two have the same error.
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
