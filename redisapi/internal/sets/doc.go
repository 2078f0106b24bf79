// Package sets has the commands of sets.
package sets
