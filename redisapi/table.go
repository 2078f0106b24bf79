package redisapi

import (
	"slices"

	"github.com/copaldb/copal/redisapi/internal/blocking"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/geo"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/native"
	"github.com/copaldb/copal/redisapi/internal/server"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func init() {
	table = command.NewTable(connectionCommands(), keys.Rows(), strings.Rows(), lists.Rows(), blocking.Rows(), hashes.Rows(), sets.Rows(),
		sortedsets.Rows(), strings.Bits(), strings.HyperLogLogs(), geo.Rows(), streams.Rows(), keys.Sorting(), keys.Dumps(), multiCommands(), pubsubCommands(),
		command.NewFamily("copal", "Commands of copal", slices.Concat(native.Rows(find), sessionRows(), changesRows())...),
		keys.Objects(), server.Commands(), configCommands(), serverCommands(), server.Cluster())
}

// find returns the command of a request.
func find(args [][]byte) (*command.Row, error) { return table.Find(args) }
