//go:build race

package kit

// RaceEnabled reports whether sync.Pool drops items at random.
const RaceEnabled = true
