// Package sparing bounds the effects of hostile clients: lines of the log are written once a
// minute, with the number of events that got none, so that an attacker does not fill the disk; and
// clients of one machine count as one.
package sparing
