// Package opened tells packages beside the root which engine stands behind an open *copal.DB.
//
// Package copal fills it in, and package admin asks: what everyday programs never call has no place
// among the methods of a DB, and needs the engine.
package opened

import (
	"sync/atomic"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/render"
)

// Engine returns the engine of a *copal.DB.
var Engine func(db any) *engine.Store

// Reads reports whether the map that a key of a *copal.DB belongs to is open and, if so, why it would not read a value
// that was written raw. It is nil in a process that has opened no map.
var Reads atomic.Pointer[func(db any, key, value []byte) (open bool, err error)]

// Tx returns the engine's transaction behind a *copal.Tx. It is nil in a process that has begun none.
var Tx atomic.Pointer[func(tx any) *engine.Tx]

// Renderers returns those of a *copal.DB.
var Renderers func(db any) *render.Renderers

// View returns the view and the engine of a *copal.Snapshot.
var View func(snapshot any) (*engine.View, *engine.Store)
