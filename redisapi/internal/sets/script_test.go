package sets_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestSetsScript(t *testing.T) {
	commandtest.Families(t, "sets.txt", sets.Rows(), strings.Rows(), keys.Rows())
}
