// Package entries reads and writes entries: one by its key, or many by prefix, range or pattern.
package entries
