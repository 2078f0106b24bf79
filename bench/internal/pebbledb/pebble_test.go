package pebbledb

import (
	"testing"

	"github.com/copaldb/copal/internal/bench/rivalstest"
)

func TestPebble(t *testing.T) { rivalstest.Run(t, Engine) }
