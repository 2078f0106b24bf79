package opened

import (
	"sync/atomic"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/render"
	"github.com/copaldb/copal/internal/vfs"
)

// Engine returns the engine of a *copal.DB.
var Engine func(db any) *engine.Store

// Disk returns the machine's file system as a []copal.Option has it used.
var Disk func(opts any) (vfs.FS, error)

// Seam returns a copal.Option that sets options of the engine: the disk, the clock and the sizes of tests.
var Seam func(set func(*engine.Options)) any

// Driver is DriverOf. It is nil in a process that has opened no store with a driver.
var Driver atomic.Pointer[func(db any) driver.Driver]

// DriverOf returns the driver of a *copal.DB, nil if the engine keeps its entries.
func DriverOf(db any) driver.Driver {
	if f := Driver.Load(); f != nil {
		return (*f)(db)
	}
	return nil
}

// Form is how an open map stores its values.
type Form struct {
	Codec  codec.Codec
	Schema string                 // of its type
	Number func() (uint64, error) // of that in the store
	// Reads returns why a typed read would not take a value that is stored by the schema of a number.
	Reads func(key, stored []byte, number uint64) error
}

// FormOf returns the form of the map that a key of a *copal.DB belongs to, nil if it is not open. The error says that
// it has no such key. FormOf is nil in a process that has opened no map.
var FormOf atomic.Pointer[func(db any, key []byte) (*Form, error)]

// Fitter returns the stored form of a value under a key, and the number of its schema.
type Fitter = func(key, value []byte) (stored []byte, schema uint64, err error)

// Shape is another form in which a *copal.Raw and its collections take and show values.
type Shape struct {
	// Take returns the stored form of a value, and the number of its schema.
	Take func(value []byte) (stored []byte, schema uint64, err error)
	// Show appends to dst the form of a value that is stored under the schema of this number.
	Show func(dst, stored []byte, schema uint64) ([]byte, error)
}

// SetValues has the writes of a *copal.Raw store the results of fit for their values or, if shape is
// not nil, makes that the form of all its values. Its reads, and those of its collections and
// transactions, call takes before they put a large value together in memory. The pointer has no
// type, so that programs without raw bytes need not carry that.
var SetValues func(raw unsafe.Pointer, fit Fitter, shape *Shape, takes engine.Takes)

// Tx returns the engine's transaction of a *copal.Tx, nil for a store with a driver. It is nil in a
// process that has begun none.
var Tx atomic.Pointer[func(tx any) *engine.Tx]

// Renderers returns those of a *copal.DB.
var Renderers func(db any) *render.Renderers

// RestOf returns the value of the record of a *copal.Change that is a Range; Key has the key of it.
// It is nil in a process that has watched nothing.
var RestOf atomic.Pointer[func(change any) []byte]

// View returns the view and the engine of a *copal.Snapshot. It is nil in a process that has taken none.
var View atomic.Pointer[func(snapshot any) (*engine.View, *engine.Store)]
