// Package opened tells packages beside the root which engine stands behind an open *copal.DB.
//
// Package copal fills it in, and package admin asks: what everyday programs never call has no place
// among the methods of a DB, and needs the engine.
package opened

import "github.com/copaldb/copal/internal/engine"

// Engine returns the engine of a *copal.DB.
var Engine func(db any) *engine.Store

// View returns the view and the engine of a *copal.Snapshot.
var View func(snapshot any) (*engine.View, *engine.Store)
