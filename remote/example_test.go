package remote_test

import (
	"context"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/remote"
)

// A worker beside `copal serve /srv/app.db`. docs/guide.md has the line that opens the store.
func Example_worker() {
	ctx := context.Background()
	db, err := remote.Open(ctx, "unix:///srv/app.db/SOCKET") // was: copal.Open("/srv/app.db")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	hits, err := copal.OpenMap[string, int64](db, "hits")
	if err != nil {
		log.Fatal(err)
	}
	if err := hits.Set("/about", 1); err != nil {
		log.Fatal(err)
	}
}
