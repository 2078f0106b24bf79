package redisapi

import (
	"testing"
)

// A transaction that fails at its end, for a read that had no error of its own, leaves nothing of the reply that was
// begun.
func TestReplyOfFailedTransaction(t *testing.T) {
	for _, how := range []how{looking, changing} {
		cmd := &command{name: "zz", arity: 1, how: how, run: func(c *call) error {
			c.Array(c.raw.Hash([]byte("text")).Len()) // which reports that it is no hash
			return nil
		}}
		s, address := newServer(t)
		if err := s.DB.Raw().Set([]byte("text"), nil); err != nil {
			t.Fatal(err)
		}
		peer := dial(t, address)
		table[cmd.name] = cmd
		peer.want("ZZ", "(error) "+string(errWrongType))
		peer.want("PING", "PONG")
		delete(table, cmd.name)
	}
}
