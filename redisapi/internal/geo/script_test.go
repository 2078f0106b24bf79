package geo_test

import (
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/geo"
	"github.com/copaldb/copal/redisapi/internal/keys"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
	"github.com/copaldb/copal/redisapi/internal/strings"
)

func TestGeoScript(t *testing.T) {
	commandtest.Families(t, "geo.txt", geo.Rows(), strings.Rows(), sortedsets.Rows(), keys.Rows())
}
