package engine

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestErrorHandlerMayUseTheStore: the error handler is called without a lock, so it may read,
// write and sync.
func TestErrorHandlerMayUseTheStore(t *testing.T) {
	for name, use := range map[string]func(*Store){
		"Stats": func(s *Store) { s.Stats() },
		"Get":   func(s *Store) { s.Get(nil, []byte("k")) },
		"Set":   func(s *Store) { s.Set(nil, []byte("k"), nil, 0, Process) },
		"Sync":  func(s *Store) { s.Sync() },
	} {
		for _, kind := range []vfs.Kind{vfs.OpSync, vfs.OpWrite} {
			var s *Store
			called := 0
			fault := vfs.Fault{Kinds: kind, Match: logtest.IsLog, N: 3, Err: syscall.EIO}
			s = mustOpen(t, vfs.Inject(vfs.NewMem(), &fault), func(o *Options) {
				o.OnError = func(error) { called++; use(s) }
			})
			s.Set(nil, []byte("k"), nil, 0, Power)
			s.Set(nil, []byte("k"), nil, 0, Process)
			if err := s.Close(); kind == vfs.OpSync && !errors.Is(err, syscall.EIO) || called != 1 {
				t.Errorf("%s, %v: Close: %v, the handler was called %d times", name, kind, err, called)
			}
		}
	}
}

// TestErrorHandlerMayEndItsGoroutine: the error handler may call runtime.Goexit, as t.Fatal does.
// Close still returns, with the error.
func TestErrorHandlerMayEndItsGoroutine(t *testing.T) {
	fault := vfs.Fault{Kinds: vfs.OpSync, Match: logtest.IsLog, N: 2, Err: syscall.EIO}
	called := 0
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), &fault), func(o *Options) { o.OnError = func(error) { called++; runtime.Goexit() } })
	if err := s.Set(nil, []byte("k"), nil, 0, Power); !errors.Is(err, syscall.EIO) {
		t.Errorf("Set: %v", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) || called != 1 {
		t.Errorf("Close: %v, the handler was called %d times", err, called)
	}
}
