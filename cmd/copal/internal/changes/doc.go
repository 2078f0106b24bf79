// Package changes prints changes of a store: those of the past, and those that come.
package changes
