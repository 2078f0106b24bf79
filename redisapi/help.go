package redisapi

import (
	"strings"
)

// subHelp is HELP of the commands that have no text of Redis.
func (c *call) subHelp() error {
	var lines []string
	for _, sub := range c.cmd.parent.subs {
		if sub != c.cmd {
			lines = append(lines, upper(sub.name), "    "+sub.summary)
		}
	}
	return c.help(lines...)
}

func upper(name string) string { return strings.ToUpper(name) }

func (c *call) help(lines ...string) error {
	name := upper(c.cmd.parent.name)
	c.Array(len(lines) + 3)
	c.Simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range lines {
		c.Simple(line)
	}
	c.Simple("HELP")
	c.Simple("    Prints this help.")
	return nil
}

func (c *call) badSubcommand() error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", c.args[1], upper(c.cmd.parent.name))
}
