package redisapi

import (
	"sync/atomic"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// The memory of requests and replies beyond the small buffers of a client is charged to its
// account. The accounts of all clients share one budget. When it is used up, it closes the largest
// client of the user with the most memory.

const (
	freeBytes  = command.KeptBytes + 16<<10 // of a buffer that is not charged, so that short replies never fail
	mostMemory = 1 << 30                    // of all clients, unless Server.ClientMemory says otherwise
	mostOutput = 256 << 20                  // of replies that wait for a client, unless Server.OutputBuffer says otherwise
)

// charges is the memory of a client by its use, in bytes. Others read it.
type charges struct {
	requests, arguments, queue, watches, names, replies, output atomic.Int64
}

// clientMemory is the memory of a client in CLIENT LIST.
type clientMemory struct {
	qbuf, qbufFree, argvMem, multiMem int64
	oll, omem                         int64 // replies and messages that wait: parts, and bytes
	total                             int64
}
