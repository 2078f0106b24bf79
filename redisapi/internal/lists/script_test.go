package lists_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestListsScript(t *testing.T) {
	commandtest.Families(t, "lists.txt", lists.Rows(), strings.Rows(), keys.Rows())
}
