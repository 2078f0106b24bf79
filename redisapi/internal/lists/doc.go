// Package lists has the commands of lists. Those that wait are in package blocking.
package lists
