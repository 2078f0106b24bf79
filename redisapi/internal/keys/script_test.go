package keys_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestKeysScript(t *testing.T) {
	commandtest.Families(t, "keys.txt", strings.Rows(), lists.Rows(), hashes.Rows(), sets.Rows(), sortedsets.Rows(), streams.Rows(), keys.Rows(), keys.Sorting(), keys.Dumps(), keys.Objects())
}

func TestSortScript(t *testing.T) {
	commandtest.Families(t, "sort.txt", strings.Rows(), lists.Rows(), hashes.Rows(), sets.Rows(), sortedsets.Rows(), streams.Rows(), keys.Rows(), keys.Sorting(), keys.Dumps(), keys.Objects())
}

func TestDumpScript(t *testing.T) {
	commandtest.Families(t, "dump.txt", strings.Rows(), lists.Rows(), hashes.Rows(), sets.Rows(), sortedsets.Rows(), streams.Rows(), keys.Rows(), keys.Sorting(), keys.Dumps(), keys.Objects())
}
