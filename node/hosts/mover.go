package hosts

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/rpc"
)

// Mover is what custody does with hosts: a custody.Space but for reading. Its methods run in steps
// of the owner, see OnLoop.
type Mover struct{ owners *Owners }

// Mover returns the hosts of this peer as records that move with the ring.
func (w *Owners) Mover() Mover { return Mover{w} }

// OnLoop runs fn in steps of the owner until it says that it is through, and returns when what the
// last of them came to is on the disks that count.
func (w *Owners) OnLoop(ctx context.Context, fn func() (through bool)) error {
	return w.DoOver(ctx, func(*owner.Owner) bool { return fn() })
}

// Scan reads the records. What the step has gathered so far is to be seen.
func (m Mover) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	if err := m.owners.owner.Flush(); err != nil {
		return err
	}
	return m.owners.deps.Store.Scan(lo, hi, fn)
}

// Note implements custody.Space: the lease that is alive, so that its worker goes on under the next
// owner.
func (m Mover) Note(pos ring.Pos) []byte {
	o := m.owners.owner
	o.Freeze(pos) // ends a lease of which its worker has not heard
	defer o.Unfreeze(pos)
	note, ok := o.Lease(pos)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		m.owners.deps.Log.Warn("lease not handed on, it runs out", "host", note.GetHost(), "err", err)
		return nil
	}
	return raw
}

// Remove implements custody.Space.
func (m Mover) Remove(pos ring.Pos) error {
	m.owners.owner.Remove(pos, pos.Next())
	return nil
}

// maxUnpacked bounds the records of a push with their links unpacked: two of the longest lists. Who
// packs tighter, as a site of very like links does, is refused, and sends smaller pushes.
const maxUnpacked = 64 << 20

// Import begins to merge records. Those of a copy come after its peer's leases have run out; those
// of a living one bring its leases along, when all records are in.
func (m Mover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	if n := owner.Unpacked(p.Records); n > maxUnpacked {
		return func() (bool, error) {
			return false, rpc.Refuse("records of %d bytes unpacked, at most %d", n, maxUnpacked)
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

// adopt continues a lease that comes with records.
func (m Mover) adopt(n custody.Note) error {
	o := m.owners.owner
	note := new(wire.LeaseNote)
	if err := rpc.Decode(n.Note, note); err != nil {
		return err
	}
	if ring.PosOf(ring.HostKey(note.GetHost())) != n.Pos {
		return rpc.Refuse("lease note of host %q is at another's position", note.GetHost())
	}
	if err := o.Adopt(note); err != nil {
		return rpc.Refuse("%v", err)
	}
	_, goes := o.Lease(n.Pos)
	m.owners.deps.Log.Debug("lease comes", "host", note.GetHost(), "remaining", note.GetRemainingMs(), "out", len(note.GetHash()), "goes_on", goes)
	return nil
}

// reportGrace is what workers get to report to the new owner of a host before it grants the host's
// URLs: a little longer than they wait between two tries.
const reportGrace = 1500 * time.Millisecond

// LeasesEnd returns a function of a peer that is not in the ring any more: it says when the last
// lease is over that the peer may have given. The zero time: it may have given one a moment ago.
//
// It goes by what this peer saw of the ring, which leftAgo tells. A peer that came too late to see
// the other go uses told: how long ago that was as a third one saw it, 0 if none did. Otherwise the
// hosts that a push brings would stand still for another TTL.
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
		// What its workers fetched under its leases they are about to report here, and it is not to
		// be fetched again.
		return now().Add(max(ttl-ago, reportGrace))
	}
}
