package hashes_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/hashes"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestHashesScript(t *testing.T) {
	commandtest.Families(t, "hashes.txt", hashes.Rows(), strings.Rows(), keys.Rows())
}
