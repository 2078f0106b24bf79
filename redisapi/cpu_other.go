//go:build !unix

package redisapi

import "time"

// processorTime is what the process has used, which is not known here.
func processorTime() (user, system time.Duration) { return 0, 0 }
