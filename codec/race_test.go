//go:build race

package codec_test

// raceEnabled reports whether sync.Pool drops values at random.
const raceEnabled = true
