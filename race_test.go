//go:build race

package copal_test

// raceEnabled says whether sync.Pool drops what it is given, at random.
const raceEnabled = true
