//go:build !pending

package main

import "github.com/copaldb/copal"

// The lines that need what is not there yet.

func uncached() []copal.Option   { return nil }
func uncachedLines(scale) []line { return nil }
func asyncMixLines(scale) []line { return nil }
func idleLines(scale) []line     { return nil }
