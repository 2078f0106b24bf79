// Package sortedsets has the commands of sorted sets. Those that wait are in package blocking.
package sortedsets
