package hosts

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// Mover implements the handoff of hosts: handoff.Space without reads. Its methods run in steps of
// the owner, see OnLoop.
type Mover struct{ owners *Owners }

// Mover returns the hosts of this peer as records for handoffs.
func (w *Owners) Mover() Mover { return Mover{w} }

// OnLoop runs fn in steps of the owner until it returns true, and returns when their writes are on
// disk, here and at the required replicas.
func (w *Owners) OnLoop(ctx context.Context, fn func() (through bool)) error {
	return w.DoOver(ctx, func(*owner.Owner) bool { return fn() })
}

// Scan reads the records, including unflushed writes of the step.
func (m Mover) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	if err := m.owners.owner.Flush(); err != nil {
		return err
	}
	return m.owners.deps.Store.Scan(lo, hi, fn)
}

// Note implements handoff.Space: it returns the live lease, so that its worker continues under the
// next owner.
func (m Mover) Note(pos ring.Pos) []byte {
	o := m.owners.owner
	o.Freeze(pos) // ends a lease that its worker has not received
	defer o.Unfreeze(pos)
	note, ok := o.Lease(pos)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		m.owners.deps.Log.Warn("lease handover failed; it will expire", "host", note.GetHost(), "err", err)
		return nil
	}
	return raw
}

// Remove implements handoff.Space.
func (m Mover) Remove(pos ring.Pos) error {
	m.owners.owner.Remove(pos, pos.Next())
	return nil
}

// maxUnpacked bounds the unpacked size of a push: two of the longest lists of links. A push with a
// higher compression ratio, as of many similar links, is rejected, and its sender splits it.
const maxUnpacked = 64 << 20

// Import begins to merge records. For records of a replica the old owner's leases must expire
// first; records of a live owner include its leases, adopted when all records are merged.
func (m Mover) Import(p handoff.Push) (merge func() (through bool, err error), later bool) {
	if n := owner.Unpacked(p.Records); n > maxUnpacked {
		return func() (bool, error) {
			return false, rpc.Refuse("records: %d bytes unpacked, at most %d", n, maxUnpacked)
		}, false
	}
	o := m.owners.owner
	var until time.Time
	if p.From != "" {
		until = m.owners.deps.LeasesEnd(p.From, p.Gone)
	}
	records, notes := o.Merge(p.Records, until), p.Notes
	return func() (bool, error) {
		if through, err := records.Go(); err != nil {
			return false, rpc.Refuse("%v", err)
		} else if !through {
			return false, nil
		}
		for n := 0; len(notes) > 0 && (n == 0 || o.HasRoom()); n++ {
			if err := m.adopt(notes[0]); err != nil {
				return false, err
			}
			notes = notes[1:]
		}
		return len(notes) == 0, nil
	}, false // the loop waits
}

// adopt continues a lease received with records.
func (m Mover) adopt(n handoff.Attachment) error {
	o := m.owners.owner
	note := new(wire.LeaseNote)
	if err := rpc.Decode(n.Note, note); err != nil {
		return err
	}
	if ring.PosOf(ring.HostKey(note.GetHost())) != n.Pos {
		return rpc.Refuse("lease note of host %q does not match its position", note.GetHost())
	}
	if err := o.Adopt(note); err != nil {
		return rpc.Refuse("%v", err)
	}
	_, goes := o.Lease(n.Pos)
	m.owners.deps.Log.Debug("lease received", "host", note.GetHost(), "remaining", note.GetRemainingMs(), "out", len(note.GetHash()), "goes_on", goes)
	return nil
}

// reportGrace is the time for workers to report to a host's new owner before it grants URLs:
// slightly longer than their retry interval.
const reportGrace = 1500 * time.Millisecond

// LeasesEnd returns a function that returns the end of the last lease which a peer that left the
// ring may have granted. The zero time means that it may have granted one just now.
//
// The time since it left is leftAgo's, as observed by this peer. A peer that joined later uses
// told: the time as observed by a third peer, 0 if unknown. Otherwise the hosts of a push would
// wait for another TTL.
func LeasesEnd(leftAgo func(id peer.ID) (time.Duration, bool), ttl time.Duration, now func() time.Time) func(id peer.ID, told time.Duration) time.Time {
	return func(id peer.ID, told time.Duration) time.Time {
		ago, seen := leftAgo(id)
		switch {
		case seen:
		case told > 0:
			ago = told
		default:
			return time.Time{}
		}
		// Its workers are about to report here what they fetched under its leases, which must not be
		// fetched again.
		return now().Add(max(ttl-ago, reportGrace))
	}
}
