// Package followtest lets one process write to a store and another follow it.
package followtest
