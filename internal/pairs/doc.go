// Package pairs goes through two walks in the order of their names, side by side.
package pairs
