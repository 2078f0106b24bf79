//go:build !unix

package redisapi

import "time"

// processorTime returns 0, because the processor time of the process is not known here.
func processorTime() (user, system time.Duration) { return 0, 0 }
