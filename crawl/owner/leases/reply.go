package leases

import (
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// Reply builds a SessionReply, with each host once in each list.
type Reply struct {
	Message *wire.SessionReply
	revoked map[string]struct{}
	moved   map[string]struct{}
	refused map[string]struct{}
	bytes   int // size of its grants
}

// NewReply returns an empty reply.
func NewReply(ttl time.Duration) *Reply {
	return &Reply{
		Message: &wire.SessionReply{TtlMs: uint32(ttl.Milliseconds())}, // some seconds
		revoked: make(map[string]struct{}), moved: make(map[string]struct{}), refused: make(map[string]struct{}),
	}
}

// Limits of a reply, since a frame holds 4 MiB: mostAnswer bytes of grants, after which no further
// grant is added, and mostURLs bytes of URLs in a grant.
const (
	mostAnswer = 3 << 19
	mostURLs   = 1 << 20
)

// Revoke revokes the worker's lease of a host.
func (a *Reply) Revoke(host string) {
	if _, again := a.revoked[host]; !again {
		a.revoked[host] = struct{}{}
		a.Message.Revoked = append(a.Message.Revoked, host)
	}
}

// Move reports that another peer owns a host.
func (a *Reply) Move(host string) {
	if _, again := a.moved[host]; !again {
		a.moved[host] = struct{}{}
		a.Message.Moved = append(a.Message.Moved, host)
	}
}

// Refuse reports that nothing of a host was processed, and must be sent again.
func (a *Reply) Refuse(host string) {
	if _, again := a.refused[host]; !again {
		a.refused[host] = struct{}{}
		a.Message.Refused = append(a.Message.Refused, host)
	}
}

// Wait refuses a host and leaves its lease, if any, unchanged: its records are in transit.
func (a *Reply) Wait(host string) {
	if _, again := a.refused[host]; !again {
		a.Refuse(host)
		a.Message.NotRenewed = append(a.Message.NotRenewed, host)
	}
}
