package command

import (
	"strings"
)

// subHelp is HELP of the commands that have no text of Redis.
func (c *Call) subHelp() error {
	var lines []string
	for _, sub := range c.Row.Parent.Subs {
		if sub != c.Row {
			lines = append(lines, Upper(sub.Name), "    "+sub.Summary)
		}
	}
	return c.Help(lines...)
}

func Upper(name string) string { return strings.ToUpper(name) }

func (c *Call) Help(lines ...string) error {
	name := Upper(c.Row.Parent.Name)
	c.Array(len(lines) + 3)
	c.Simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range lines {
		c.Simple(line)
	}
	c.Simple("HELP")
	c.Simple("    Prints this help.")
	return nil
}

func (c *Call) BadSubcommand() error {
	return Errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", c.Args[1], Upper(c.Row.Parent.Name))
}

// WrongArguments is the error of a number of arguments that does not fit.
func (c *Call) WrongArguments() error {
	return Errorf("ERR wrong number of arguments for '%s' command", c.Row.FullName())
}
