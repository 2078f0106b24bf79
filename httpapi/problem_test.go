package httpapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal"
)

// A write that is refused is answered with the reason, and by whether it is of use to ask again.
func TestRefusedWrites(t *testing.T) {
	for _, x := range []struct {
		err    error
		status int
	}{
		{copal.ErrReadOnly, http.StatusForbidden},
		{fmt.Errorf("%w: a sync has failed: %w", copal.ErrReadOnly, syscall.EIO), http.StatusServiceUnavailable},
		{fmt.Errorf("copal: %w", &fs.PathError{Op: "open", Path: "MANIFEST.tmp", Err: syscall.EMFILE}), http.StatusServiceUnavailable},
		{fmt.Errorf("copal: %w", &fs.PathError{Op: "stat", Path: "00000001.log", Err: syscall.EACCES}), http.StatusServiceUnavailable},
		{fmt.Errorf("%w: %w", copal.ErrNoSpace, syscall.ENOSPC), http.StatusInsufficientStorage},
		{fmt.Errorf("copal: %w", syscall.EIO), http.StatusInternalServerError},
	} {
		p := problemOf(x.err)
		if why := x.err.Error(); p.Status != x.status || !strings.Contains(why, p.Detail[strings.LastIndex(p.Detail, ": ")+1:]) {
			t.Errorf("%v: %d, %q", x.err, p.Status, p.Detail)
		}
	}
}
