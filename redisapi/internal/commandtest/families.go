package commandtest

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// Families runs a script of redisapi/testdata by some families. The script ends at the first request for a command that
// they do not have.
func Families(t *testing.T, script string, families ...command.Family) {
	t.Helper()
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	table := command.NewTable(families...)
	c := Bare(db, table)
	s := Script{Do: func(v3 bool, request string) (string, bool) {
		args := [][]byte{}
		for _, word := range Split(t, request) {
			args = append(args, []byte(word))
		}
		if len(args) == 0 || table.ByName[strings.ToLower(string(args[0]))] == nil {
			return "", false
		}
		c.V3 = v3
		Run(c, args)
		reply, err := ReadReply(bufio.NewReader(bytes.NewReader(c.Buf)))
		if err != nil {
			t.Fatal(request, err)
		}
		c.Cut(0)
		return reply, true
	}}
	s.Run(t, "../../testdata/"+script)
}
