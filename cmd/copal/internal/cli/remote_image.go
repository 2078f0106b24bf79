//go:build image

package cli

import (
	"context"
	"errors"

	"github.com/copaldb/copal"
)

// openRemote is left out of the image, which serves: the client would be a third of it.
func openRemote(context.Context, string, ...copal.Option) (*copal.DB, error) {
	return nil, errors.New("the copal of the image does not reach other servers: use the command itself, `go install github.com/copaldb/copal/cmd/copal@latest`")
}
