// Package clock is time as the store sees it, so that a test can move it.
package clock
