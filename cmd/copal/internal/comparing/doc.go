// Package comparing compares two states of stores, and takes back the difference.
package comparing
