package main

import "fmt"

// showBytes is a number of bytes as it is and, from 1 KiB on, rounded to a unit that
// a person can compare.
func showBytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprint(n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1 << 10; value < 999.95 {
			break
		}
	}
	return fmt.Sprintf("%d (%.1f %s)", n, value, unit)
}
