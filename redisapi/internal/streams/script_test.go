package streams_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/streams"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestStreamsScript(t *testing.T) {
	commandtest.Families(t, "streams.txt", streams.Rows(), strings.Rows(), keys.Rows(), keys.Objects(), hashes.Rows(), lists.Rows(), sets.Rows())
}
