package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/opened"
)

// Ping asks the server of a store that Open or Config.Open has returned, and each master of a
// cluster, for a sign of life. It ends with ctx, and with Config.Timeout for each of them.
func Ping(ctx context.Context, db *copal.DB) error {
	d, is := opened.DriverOf(db).(interface{ ping(context.Context) error })
	if !is {
		return fmt.Errorf("copal: Ping of a store on this machine: %w", errors.ErrUnsupported)
	}
	return d.ping(ctx)
}

func (r *redis) ping(ctx context.Context) error {
	nodes, err := r.masters(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if _, err := r.onto(node.on).get(ctx, ask("PING")); err != nil {
			return err
		}
	}
	return nil
}
