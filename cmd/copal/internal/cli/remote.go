//go:build !image

package cli

import (
	"context"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/remote"
)

// openRemote opens the store of a server.
func openRemote(ctx context.Context, url string, opts ...copal.Option) (*copal.DB, error) {
	return remote.Open(ctx, url, opts...)
}
