package engine_test

import (
	"context"

	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/store"
)

func init() {
	engine.WithRooms = store.WithRooms
	engine.BackUp = func(s *engine.Store, dir string) error {
		_, err := backup.Make(context.Background(), s, dir, backup.Options{})
		return err
	}
}
