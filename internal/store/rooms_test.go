package store_test

import (
	"context"

	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/store"
)

func init() {
	store.BackUp = func(s *store.Store, dir string) error {
		_, err := backup.Make(context.Background(), s, dir, backup.Options{})
		return err
	}
}
