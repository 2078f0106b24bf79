package copal

import (
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

func init() {
	opened.Engine = func(db any) *engine.Store { return db.(*DB).store }
	opened.View = func(s any) (*engine.View, *engine.Store) {
		snapshot := s.(*Snapshot)
		return snapshot.view, snapshot.db.store
	}
}
