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
	LookAt  int64 // when to look again whether it has lapsed; 0: when it expires
	Out     map[uint64]*Item
	Last    uint64 // seq of the Session whose answer granted last
	Fresh   bool   // nothing was granted under it yet
	// bounded: only so many URLs may still be granted before the host is placed anew.
	Bounded bool
	Left    int
	Said    uint64  // number of the last visit in which its worker said that it holds it
	Want    int     // number of the wish of this step in granter.wants, from 1 on; 0: none
	Pace    float64 // by how much the worker asks less often than usual; 1 or less: as usual
	Told    float64 // of that, with what the host's pages add, what the worker was told; 0: nothing
	Owing   int64   // since when it owes an outcome: of the last one, or of the first URL that is out
}

// Item is a URL out under a lease. Its pending record (without the url, which is read again if need
// be) stays in the store.
type Item struct {
	ondisk.Pending
	Job *Job
	Seq uint64 // of the Session whose answer granted it
}

// Item is a URL that is out under the lease, nil if it is not; l may be nil.
func (l *Lease) Item(hash uint64) *Item {
	if l == nil {
		return nil
	}
	return l.Out[hash]
}

// SpokenOf says whether that which the worker said together with holding the lease is still being
// taken in, or may be: it waits for an answer.
func (l *Lease) SpokenOf() bool {
	return l.Session.Renewing || l.Said > 0 && l.Said == l.Session.Visiting
}

// Session is what is known of a worker.
type Session struct {
	Peer        string
	Incarnation uint64
	Told        bool // of which an earlier owner spoke, and not yet the worker itself
	Seq, Ack    uint64
	Capacity    uint32
	Backlog     uint32
	Heard       int64
	Relieved    int64 // when a host was taken from it last, as it had too much
	Leases      map[*Host]struct{}
	Offers      []*Host // on offer to it, the oldest first; no more than hosts are being placed
	Visiting    uint64  // number of the visit under way; 0: none is
	Renewing    bool    // it has not come to all leases yet
	Earned      int     // outcomes of what was out under its leases
}

// Held are the hosts that the worker has, in ring order: what comes of them is to be the same each
// time that a simulation is played.
func (s *Session) Held() []*Host {
	return slices.SortedFunc(maps.Keys(s.Leases), func(a, b *Host) int { return bytes.Compare(a.Pos[:], b.Pos[:]) })
}

const (
	// overloadedShare of its capacity in hand makes a worker overloaded, as for those that place
	// hosts (crawl/placement).
	overloadedShare = 0.9
)

// Overloaded says whether a worker told of about as much in hand as it can hold.
func (s *Session) Overloaded() bool {
	return s.Capacity > 0 && float64(s.Backlog) >= overloadedShare*float64(s.Capacity)
}
