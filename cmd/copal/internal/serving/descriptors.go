package serving

import (
	"log/slog"
	"os"

	"github.com/copaldb/copal/redisapi"
)

// A process may have so many descriptors open, and each connection takes one. A store without one
// cannot make its next segment, so the server takes fewer connections than --max-clients where the
// limit is low, and keeps the rest for the store. (The limit is the hard one: Go's runtime raises
// the soft one to it when a process begins.)

// keptDescriptors are those that connections leave: for the listeners, the connections of --admin,
// and the store's segments, compaction, snapshots and backups.
const keptDescriptors = 36

// adminConnections are those of --admin: a scrape and some probes, kept alive, and a profile; and
// those that have not asked for anything yet.
const adminConnections = 10

// ownConnections are those that the socket in the directory gets of them.
const ownConnections = 4

// connectionsWithin returns the connections that each of some protocols may have, at most wanted,
// in a process that may have limit descriptors and has some open.
func connectionsWithin(limit, open, protocols, wanted int) int {
	return max(min((limit-open-keptDescriptors)/max(protocols, 1), wanted), 1)
}

// fitConnections lowers --max-clients to the connections that the limit of descriptors allows.
func (s *Settings) fitConnections(server, own *redisapi.Server, logger *slog.Logger) {
	limit, known := descriptorLimit()
	if !known {
		return
	}
	protocols := 0
	for _, served := range []bool{s.redis != "" || s.unix != "", s.http != ""} {
		if served {
			protocols++
		}
	}
	fit := connectionsWithin(limit, openDescriptors(), protocols, s.maxClients)
	if fit < s.maxClients {
		logger.Warn("the limit of descriptors leaves room for fewer connections than --max-clients; raise it by ulimit -n, or LimitNOFILE of systemd",
			"max-clients", s.maxClients, "limit", limit, "connections of each protocol", fit)
		s.maxClients, server.MaxClients, own.MaxClients = fit, fit, min(fit, ownConnections)
	}
}

// openDescriptors returns about the number of open descriptors: the system gives the lowest that is
// free.
func openDescriptors() int {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return 0
	}
	defer f.Close()
	return int(f.Fd())
}
