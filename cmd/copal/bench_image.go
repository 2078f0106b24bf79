//go:build image

package main

import "github.com/spf13/cobra"

// The image serves, and has no room for commands that measure.
func measuring(*app) []*cobra.Command { return nil }

func beChild() {}
