package leases

import (
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// Reply gathers a SessionReply, each host once in each list.
type Reply struct {
	Message *wire.SessionReply
	revoked map[string]struct{}
	moved   map[string]struct{}
	refused map[string]struct{}
	bytes   int // of its grants
}

// NewReply returns an answer that says nothing yet.
func NewReply(ttl time.Duration) *Reply {
	return &Reply{
		Message: &wire.SessionReply{TtlMs: uint32(ttl.Milliseconds())}, // some seconds
		revoked: make(map[string]struct{}), moved: make(map[string]struct{}), refused: make(map[string]struct{}),
	}
}

// A frame holds 4 MiB. An answer with more than mostAnswer of grants takes no further one, a grant
// with more than mostURLs of URLs no further URL, and one with more than mostRobots no further host
// whose worker is to be told of a robots.txt of more than smallRobots: it is offered again. Most
// hosts have a small one, and hundreds of them are not to go from hand to hand because of two that
// have not.
const (
	mostAnswer  = 3 << 19
	mostURLs    = 1 << 20
	mostRobots  = 1 << 20
	smallRobots = 4 << 10
)

// Revoke has the worker drop a host.
func (a *Reply) Revoke(host string) {
	if _, again := a.revoked[host]; !again {
		a.revoked[host] = struct{}{}
		a.Message.Revoked = append(a.Message.Revoked, host)
	}
}

// Move says that another peer owns a host.
func (a *Reply) Move(host string) {
	if _, again := a.moved[host]; !again {
		a.moved[host] = struct{}{}
		a.Message.Moved = append(a.Message.Moved, host)
	}
}

// Refuse says that nothing was taken in of a host: it is to be said again.
func (a *Reply) Refuse(host string) {
	if _, again := a.refused[host]; !again {
		a.refused[host] = struct{}{}
		a.Message.Refused = append(a.Message.Refused, host)
	}
}

// Wait refuses a host and leaves its lease, if there is one, as it is: its records are on their
// way, here or elsewhere.
func (a *Reply) Wait(host string) {
	if _, again := a.refused[host]; !again {
		a.Refuse(host)
		a.Message.NotRenewed = append(a.Message.NotRenewed, host)
	}
}
