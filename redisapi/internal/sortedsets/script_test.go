package sortedsets_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestSortedSetsScript(t *testing.T) {
	commandtest.Families(t, "sortedsets.txt", sortedsets.Rows(), strings.Rows(), sets.Rows(), keys.Rows(), hashes.Rows())
}
