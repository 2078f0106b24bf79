package strings_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/lists"
	"github.com/copaldb/copal/redisapi/internal/sets"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestStringsScript(t *testing.T) {
	commandtest.Families(t, "strings.txt", strings.Rows(), strings.Bits(), strings.HyperLogLogs(), keys.Rows(), lists.Rows(), sets.Rows())
}

func TestBitsScript(t *testing.T) {
	commandtest.Families(t, "bits.txt", strings.Rows(), strings.Bits(), strings.HyperLogLogs(), keys.Rows(), lists.Rows(), sets.Rows())
}

func TestHyperLogLogsScript(t *testing.T) {
	commandtest.Families(t, "hyperloglog.txt", strings.Rows(), strings.Bits(), strings.HyperLogLogs(), keys.Rows(), lists.Rows(), sets.Rows())
}
