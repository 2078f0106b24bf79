//go:build !unix

package redisapi

import "time"

// processorTime is the processor time of the process, which is not known here.
func processorTime() (user, system time.Duration) { return 0, 0 }
