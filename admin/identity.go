package admin

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
)

// Identity returns sixteen hexadecimal digits that were drawn when the store was made. Its backups have the same. A
// store without a record may have others each time it is opened. The result is "" for a store on another machine.
func Identity(db *copal.DB) string {
	if opened.DriverOf(db) != nil {
		return ""
	}
	return fmt.Sprintf("%016x", seglog.Identity(opened.Engine(db).Log()))
}
