package node

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/rpc"
)

// hostMover is what custody does with hosts. Its methods run in steps of the owner's loop.
type hostMover struct {
	ranged
	owners *owners
}

// mover returns the hosts of this peer as records that move with the ring.
func (w *owners) mover() mover {
	m := hostMover{owners: w}
	m.head = []byte{'h'}
	m.scan = func(lo, hi []byte, fn func(key, value []byte) bool) error {
		// What the step has gathered so far is to be seen.
		if err := w.loop.owner.Flush(); err != nil {
			return err
		}
		return w.space.Scan(lo, hi, fn)
	}
	return m
}

// Note implements custody.Space: the lease that is alive, so that its worker goes on under the next owner.
func (m hostMover) Note(pos ring.Pos) []byte {
	o := m.owners.loop.owner
	o.Freeze(pos) // ends a lease of which its worker has not heard
	defer o.Unfreeze(pos)
	note, ok := o.Lease(pos)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		m.owners.log.Warn("lease not handed on, it runs out", "host", note.GetHost(), "err", err)
		return nil
	}
	return raw
}

// Remove implements custody.Space.
func (m hostMover) Remove(pos ring.Pos) error {
	m.owners.loop.owner.Remove(pos, pos.Next())
	return nil
}

// Import implements mover. Records of a copy come after its peer's leases have run out; those of a living one bring its leases along, when all records are in.
func (m hostMover) Import(p custody.Push) (merge func() (through bool, err error), later bool) {
	o := m.owners.loop.owner
	var until time.Time
	if p.From != "" {
		until = m.owners.leasesEnd(p.From, p.Gone)
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
func (m hostMover) adopt(n custody.Note) error {
	o := m.owners.loop.owner
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
	m.owners.log.Debug("lease comes", "host", note.GetHost(), "remaining", note.GetRemainingMs(), "out", len(note.GetHash()), "goes_on", goes)
	return nil
}

// onLoop runs fn in steps of the owner until it says that it is through, and returns when what the last of them came to is on the disks that count.
func (w *owners) onLoop(ctx context.Context, fn func() (through bool)) error {
	return w.loop.doOver(ctx, func(*owner.Owner) bool { return fn() })
}

// recordsCame counts that hosts came or went, for those who wait for the ring to be idle. On the loop.
func (w *owners) recordsCame() {
	w.loop.post(func(*owner.Owner) { w.taken.hosts() })
}

// settled is told when the hosts of an arc are here.
func (w *owners) settled() {
	w.spawn(func(context.Context) { w.loop.post(func(o *owner.Owner) { o.SettledChanged() }) })
}
