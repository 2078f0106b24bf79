package redisapi

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// If a transaction fails at its end, for a read that had no error of its own, the reply that was
// begun is discarded.
func TestReplyOfFailedTransaction(t *testing.T) {
	for _, how := range []command.How{command.Looking, command.Changing} {
		cmd := &command.Row{Name: "zz", Arity: 1, How: how, Run: func(c *command.Call) error {
			c.Array(c.Store.Hash([]byte("text")).Len()) // which reports that it is no hash
			return nil
		}}
		s, address := newServer(t)
		if err := s.DB.Raw().Set([]byte("text"), nil); err != nil {
			t.Fatal(err)
		}
		peer := dial(t, address)
		table.ByName[cmd.Name] = cmd
		peer.want("ZZ", "(error) "+string(command.ErrWrongType))
		peer.want("PING", "PONG")
		delete(table.ByName, cmd.Name)
	}
}
