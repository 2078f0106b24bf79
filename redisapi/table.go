package redisapi

import (
	"bytes"

	"github.com/copaldb/copal/redisapi/internal/blocking"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/geo"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

// table has all commands by name.
var table = map[string]*command.Row{}

// numbered are the commands and subcommands by their numbers.
var numbered []*command.Row

// families are the commands by what they are about, as they stand in the manual.
var families []command.Family

func init() {
	families = []command.Family{connectionCommands(), keys.Rows(), strings.Rows(), lists.Rows(), blocking.Rows(), hashes.Rows(), sets.Rows(),
		sortedsets.Rows(), strings.Bits(), strings.HyperLogLogs(), geo.Rows(), streams.Rows(), keys.Sorting(), keys.Dumps(), multiCommands(), pubsubCommands(), copalCommands(),
		keys.Objects(), commandCommands(), configCommands(), serverCommands(), clusterCommands()}
	for _, f := range families {
		for _, cmd := range f.Rows {
			table[cmd.Name] = cmd
			for _, each := range append([]*command.Row{cmd}, cmd.Subs...) {
				each.Number = len(numbered)
				numbered = append(numbered, each)
			}
		}
	}
}

// find returns the command of a request, or an error in Redis's words. The request has one argument at least.
func find(args [][]byte) (*command.Row, error) {
	var room [32]byte
	cmd := table[string(command.Lower(room[:0], args[0]))] // no string is made
	if cmd == nil {
		return nil, unknown(args)
	}
	if len(cmd.Subs) > 0 && len(args) > 1 {
		sub := cmd.Sub(args[1])
		if sub == nil {
			return nil, command.Errorf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], command.Upper(cmd.Name))
		}
		cmd = sub
	}
	if !cmd.Takes(len(args)) {
		return nil, command.Errorf("ERR wrong number of arguments for '%s' command", cmd.FullName())
	}
	return cmd, nil
}

// unknown says of a command that there is none, in the words of Redis.
func unknown(args [][]byte) error {
	var beginning bytes.Buffer
	for _, a := range args[1:] {
		if beginning.Len() >= 128 {
			break
		}
		beginning.WriteString("'" + string(a[:min(len(a), 128-beginning.Len())]) + "' ")
	}
	return command.Errorf("ERR unknown command '%.128s', with args beginning with: %s", args[0], beginning.Bytes())
}
