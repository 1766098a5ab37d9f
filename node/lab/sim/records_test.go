package sim

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
)

// hostRecords are this peer's own records of hosts. The methods run in steps of the owner.
type hostRecords struct {
	c *crawlPeer
	handoff.Ranged
}

func newHostRecords(c *crawlPeer) hostRecords {
	return hostRecords{c, handoff.Ranged{Head: hostSpace.Head, Scan: func(lo, hi []byte, fn func(key, value []byte) bool) error {
		// Changes collected in the current step must be visible.
		if err := c.owner.Export(ring.Pos{}, ring.Pos{}, func(_, _ []byte) bool { return false }); err != nil {
			return err
		}
		return c.disk.hosts.Scan(lo, hi, fn)
	}}}
}

var _ mover = hostRecords{}

func (h hostRecords) run(fn, ended func()) { h.c.do(func(*owner.Owner) { fn() }, ended) }

// Note implements handoff.Space: an active lease moves along.
func (h hostRecords) Note(pos ring.Pos) []byte {
	h.c.owner.Freeze(pos) // ends a lease that its worker has not received
	defer h.c.owner.Unfreeze(pos)
	note, ok := h.c.owner.Lease(pos)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(note)
	if err != nil {
		h.c.world.fail(err)
	}
	return raw
}

// Remove implements handoff.Space.
func (h hostRecords) Remove(pos ring.Pos) error {
	h.c.owner.Remove(pos, pos.Next())
	return nil
}

// reportGrace is the time that workers get to report to the new owner of a host before it grants
// the host's URLs.
const reportGrace = 1500 * time.Millisecond

// Import implements mover. Records of a replica arrive after its peer's leases have expired, since
// the ring waits for a TTL before it reassigns the arc of a dead peer; those of a live one bring
// its leases.
func (h hostRecords) Import(p *handoff.Push) error {
	var until time.Time
	if p.From != "" {
		until = h.c.world.Now().Add(reportGrace)
	}
	if err := h.c.owner.ImportUntil(p.Records, until); err != nil {
		return err
	}
	for _, n := range p.Notes {
		note := new(wire.LeaseNote)
		if err := proto.Unmarshal(n.Note, note); err != nil {
			return err
		}
		if err := h.c.owner.Adopt(note); err != nil {
			return err
		}
	}
	return nil
}

// bodyRecords are this peer's own records of bodies.
type bodyRecords struct {
	c *crawlPeer
	handoff.Ranged
}

var _ mover = bodyRecords{}

func (b bodyRecords) run(fn, ended func()) {
	b.c.Host.After(0, func() {
		fn()
		b.c.durable(ended)
	})
}

// Note implements handoff.Space.
func (b bodyRecords) Note(ring.Pos) []byte { return nil }

// Remove implements handoff.Space.
func (b bodyRecords) Remove(pos ring.Pos) error {
	_, err := b.c.bodies.state.Remove(pos, pos.Next())
	return err
}

// Import implements mover.
func (b bodyRecords) Import(p *handoff.Push) error {
	_, err := b.c.bodies.state.Import(p.Records)
	return err
}
