package hosts

import (
	"bytes"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Lease is the grant of a host to a worker.
type Lease struct {
	Session *Session
	Epoch   ondisk.Epoch
	Expires int64
	LookAt  int64 // time of the next expiry check; 0: Expires
	Out     map[uint64]*Item
	Last    uint64 // seq of the Session whose reply granted last
	Fresh   bool   // nothing was granted under it yet
	// Bounded leases grant a limited number of URLs, then the host is placed again.
	Bounded bool
	Left    int
	Said    uint64  // number of the last visit that listed it as held
	Want    int     // index of this step's request in granter.wants, from 1; 0: none
	Pace    float64 // factor of the request interval; 1 or less: normal
	Told    float64 // last factor sent to the worker, including the additional one of the host's pages; 0: none
	Owing   int64   // since when an outcome is due: time of the last one, or of the first URL out
}

// Item is a URL out under a lease. Its pending record (without the URL, which is read if needed)
// stays in the store.
type Item struct {
	ondisk.Pending
	Job *Job
	Seq uint64 // of the Session whose reply granted it
}

// Item returns the URL out under the lease with a hash, nil if there is none; l may be nil.
func (l *Lease) Item(hash uint64) *Item {
	if l == nil {
		return nil
	}
	return l.Out[hash]
}

// SpokenOf reports whether the message that lists the lease as held is still being processed, or
// may be: its worker waits for the reply.
func (l *Lease) SpokenOf() bool {
	return l.Session.Renewing || l.Said > 0 && l.Said == l.Session.Visiting
}

// Session is the state of a worker.
type Session struct {
	Peer        string
	Incarnation uint64
	Told        bool // named by an earlier owner, not yet by the worker itself
	Seq, Ack    uint64
	Capacity    uint32
	Backlog     uint32
	Heard       int64
	Relieved    int64 // time at which an overloaded worker last lost a host
	Leases      map[*Host]struct{}
	Offers      []*Host // pending offers, oldest first; no more than hosts are being placed
	Visiting    uint64  // number of the current visit; 0: none
	Renewing    bool    // not all leases are renewed yet
	Earned      int     // outcomes of URLs leased to it
}

// Held returns the worker's hosts in ring order, so that simulations are deterministic.
func (s *Session) Held() []*Host {
	return slices.SortedFunc(maps.Keys(s.Leases), func(a, b *Host) int { return bytes.Compare(a.Pos[:], b.Pos[:]) })
}

const (
	// overloadedShare is the share of its capacity at which a worker counts as overloaded, as in
	// crawl/placement.
	overloadedShare = 0.9
)

// Overloaded reports whether a worker's reported backlog is close to its capacity.
func (s *Session) Overloaded() bool {
	return s.Capacity > 0 && float64(s.Backlog) >= overloadedShare*float64(s.Capacity)
}
