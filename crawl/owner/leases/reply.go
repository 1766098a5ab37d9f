package leases

import (
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// Reply builds a SessionReply, with each host once in each list.
type Reply struct {
	Message *wire.SessionReply
	listed  map[listed]struct{}
	bytes   int // size of its grants
}

// listed is a host in one of the lists.
type listed struct {
	list *[]string
	host string
}

// NewReply returns an empty reply.
func NewReply(ttl time.Duration) *Reply {
	return &Reply{Message: &wire.SessionReply{TtlMs: uint32(ttl.Milliseconds())}, listed: make(map[listed]struct{})} // some seconds
}

// Limits of a reply, since a frame holds 4 MiB: mostAnswer bytes of grants, after which no further
// grant is added, and mostURLs bytes of URLs in a grant.
const (
	mostAnswer = 3 << 19
	mostURLs   = 1 << 20
)

// add appends a host to a list, unless it is in it.
func (a *Reply) add(list *[]string, host string) (added bool) {
	_, again := a.listed[listed{list, host}]
	if !again {
		a.listed[listed{list, host}] = struct{}{}
		*list = append(*list, host)
	}
	return !again
}

// Revoke revokes the worker's lease of a host.
func (a *Reply) Revoke(host string) { a.add(&a.Message.Revoked, host) }

// Move reports that another peer owns a host.
func (a *Reply) Move(host string) { a.add(&a.Message.Moved, host) }

// Refuse reports that nothing of a host was processed, and must be sent again.
func (a *Reply) Refuse(host string) { a.add(&a.Message.Refused, host) }

// Wait refuses a host and leaves its lease, if any, unchanged: its records are in transit.
func (a *Reply) Wait(host string) {
	if a.add(&a.Message.Refused, host) {
		a.Message.NotRenewed = append(a.Message.NotRenewed, host)
	}
}
