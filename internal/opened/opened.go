// Package opened tells packages beside the root which engine stands behind an open *copal.DB.
//
// Package copal fills it in, and package admin asks: what everyday programs never call has no place
// among the methods of a DB, and needs the engine.
package opened

import (
	"sync/atomic"
	"unsafe"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/render"
)

// Engine returns the engine of a *copal.DB.
var Engine func(db any) *engine.Store

// Fitted is what an open map stores for a value that comes as JSON.
type Fitted struct {
	Value  []byte // the JSON itself where that is the map's codec
	Schema uint64
	Text   string // of the schema of its type
}

// Fit returns what the map that a key of a *copal.DB belongs to stores for a value that comes as JSON, nil if it is not
// open. An error beside what it returns is about the value, and any other about the key. Fit is nil in a process that
// has opened no map.
var Fit atomic.Pointer[func(db any, key, value []byte) (*Fitted, error)]

// Fitter returns what is stored for a value under a key, and the number of its schema.
type Fitter = func(key, value []byte) (stored []byte, schema uint64, err error)

// SetFit has the writes of a *copal.Raw store what fit makes of their values. It takes a pointer without its type,
// which programs without raw bytes need not carry.
var SetFit func(raw unsafe.Pointer, fit Fitter)

// Tx returns the engine's transaction behind a *copal.Tx. It is nil in a process that has begun none.
var Tx atomic.Pointer[func(tx any) *engine.Tx]

// Renderers returns those of a *copal.DB.
var Renderers func(db any) *render.Renderers

// View returns the view and the engine of a *copal.Snapshot.
var View func(snapshot any) (*engine.View, *engine.Store)
