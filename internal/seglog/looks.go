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

// Again counts an attempt that ended with err, and reports whether to make another. It reports true
// for the first two, then only while err differs from the one before, up to 1,000.
func (l *Looks) Again(err error) bool {
	same := err.Error() == l.told
	l.n, l.told = l.n+1, err.Error()
	return l.n < 3 || !same && l.n < mostLooks
}
