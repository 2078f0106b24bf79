package redisapi

import (
	"bytes"
)

// table has all commands by name.
var table = map[string]*command{}

// numbered are the commands and subcommands by their numbers.
var numbered []*command

// families are the commands by what they are about, as they stand in the manual.
var families []family

func init() {
	families = []family{connectionCommands(), keyCommands(), stringCommands(), listCommands(), blockingCommands(), hashCommands(), setCommands(),
		sortedSetCommands(), bitCommands(), hyperLogLogCommands(), geoCommands(), streamCommands(), sortCommands(), dumpCommands(), multiCommands(), pubsubCommands(), copalCommands(),
		objectCommands(), commandCommands(), configCommands(), serverCommands(), clusterCommands()}
	for _, f := range families {
		for _, cmd := range f.commands {
			table[cmd.name] = cmd
			for _, each := range append([]*command{cmd}, cmd.subs...) {
				each.number = len(numbered)
				numbered = append(numbered, each)
			}
		}
	}
}

// find returns the command of a request, or an error in Redis's words. The request has one argument at least.
func find(args [][]byte) (*command, error) {
	var room [32]byte
	cmd := table[string(lower(room[:0], args[0]))] // no string is made
	if cmd == nil {
		return nil, unknown(args)
	}
	if len(cmd.subs) > 0 && len(args) > 1 {
		sub := cmd.sub(args[1])
		if sub == nil {
			return nil, errorf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], upper(cmd.name))
		}
		cmd = sub
	}
	if !cmd.takes(len(args)) {
		return nil, errorf("ERR wrong number of arguments for '%s' command", cmd.fullName())
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
	return errorf("ERR unknown command '%.128s', with args beginning with: %s", args[0], beginning.Bytes())
}
