//go:build image

package main

import (
	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// measurements are none: the commands are left out of the image, which serves: they and the stores that they measure
// would be an eighth of it.
func measurements(*cli.App) []*cobra.Command { return nil }

func beChild() {}
