package command

import (
	"bytes"
	"strings"
)

// Table has the rows of all commands.
type Table struct {
	ByName   map[string]*Row
	Numbered []*Row   // commands and subcommands by their numbers
	Families []Family // in the order of the manual
}

// NewTable returns a table of families.
func NewTable(families ...Family) *Table {
	t := &Table{ByName: map[string]*Row{}, Families: families}
	for _, f := range families {
		for _, cmd := range f.Rows {
			t.ByName[cmd.Name] = cmd
			for _, each := range append([]*Row{cmd}, cmd.Subs...) {
				each.Number = len(t.Numbered)
				t.Numbered = append(t.Numbered, each)
			}
		}
	}
	return t
}

// Find returns the command of a request, or an error in Redis's words. The request has one argument at least.
func (t *Table) Find(args [][]byte) (*Row, error) {
	var room [32]byte
	cmd := t.ByName[string(Lower(room[:0], args[0]))] // no string is made
	if cmd == nil {
		return nil, unknown(args)
	}
	if len(cmd.Subs) > 0 && len(args) > 1 {
		sub := cmd.Sub(args[1])
		if sub == nil {
			return nil, Errorf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], Upper(cmd.Name))
		}
		cmd = sub
	}
	if !cmd.Takes(len(args)) {
		return nil, Errorf("ERR wrong number of arguments for '%s' command", cmd.FullName())
	}
	return cmd, nil
}

// unknown is the error of Redis for a command that is not in the table.
func unknown(args [][]byte) error {
	var beginning bytes.Buffer
	for _, a := range args[1:] {
		if beginning.Len() >= 128 {
			break
		}
		beginning.WriteString("'" + string(a[:min(len(a), 128-beginning.Len())]) + "' ")
	}
	return Errorf("ERR unknown command '%.128s', with args beginning with: %s", args[0], beginning.Bytes())
}

// Named returns the command of a name such as "get" or "client|list", nil if there is none.
func (t *Table) Named(name []byte) *Row {
	first, second, ok := strings.Cut(string(Lower(nil, name)), "|")
	cmd := t.ByName[first]
	if cmd == nil || !ok {
		return cmd
	}
	return cmd.Sub([]byte(second))
}

// All returns the commands in the order of the manual.
func (t *Table) All() (list []*Row) {
	for _, f := range t.Families {
		list = append(list, f.Rows...)
	}
	return list
}
