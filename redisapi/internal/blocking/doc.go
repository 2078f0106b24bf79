// Package blocking has the pops of lists and sorted sets that wait for an element.
package blocking
