package sim

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
)

// upTo is the first key behind all that begin with a prefix; nil if there is none.
func upTo(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// scanner reads records in the order of keys.
type scanner func(lo, hi []byte, fn func(key, value []byte) bool) error

// next finds the first position from one on at which a scan finds records.
func (s *space) next(from ring.Pos, scan scanner) (pos ring.Pos, ok bool, err error) {
	err = scan(s.at(from), upTo(s.head), func(key, _ []byte) bool {
		if ok = len(key) >= len(s.head)+ring.PosSize; ok {
			pos = ring.Pos(key[len(s.head):])
		}
		return !ok
	})
	return pos, ok, err
}

// export calls fn for the records at a position, from a key on.
func (s *space) export(pos ring.Pos, from []byte, scan scanner, fn func(key, value []byte) bool) error {
	lo := s.at(pos)
	hi := upTo(lo)
	if from != nil {
		lo = from
	}
	return scan(lo, hi, fn)
}

// hostRecords are this peer's own records of hosts. The methods run in steps of the owner.
type hostRecords struct{ c *crawlPeer }

var _ mover = hostRecords{}

func (h hostRecords) run(fn, ended func()) { h.c.do(func(*owner.Owner) { fn() }, ended) }

func (h hostRecords) scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	// What the step has gathered so far is to be seen.
	if err := h.c.owner.Export(ring.Pos{}, ring.Pos{}, func(_, _ []byte) bool { return false }); err != nil {
		return err
	}
	return h.c.disk.hosts.Scan(lo, hi, fn)
}

// Next implements custody.Reader.
func (h hostRecords) Next(from ring.Pos) (ring.Pos, bool, error) {
	return hostSpace.next(from, h.scan)
}

// Export implements custody.Reader.
func (h hostRecords) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return hostSpace.export(pos, from, h.scan, fn)
}

// Note implements custody.Space: the lease that is alive goes along.
func (h hostRecords) Note(pos ring.Pos) []byte {
	h.c.owner.Freeze(pos) // ends a lease of which its worker has not heard
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

// Remove implements custody.Space.
func (h hostRecords) Remove(pos ring.Pos) error {
	h.c.owner.Remove(pos, pos.Next())
	return nil
}

// reportGrace is what workers get to report to the new owner of a host before it grants the host's URLs.
const reportGrace = 1500 * time.Millisecond

// Import implements mover. Records of a copy come after its peer's leases have run out, since the ring waits for a TTL before it gives away the arc of a
// dead one; those of a living one bring its leases along.
func (h hostRecords) Import(p *custody.Push) error {
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
type bodyRecords struct{ c *crawlPeer }

var _ mover = bodyRecords{}

func (b bodyRecords) run(fn, ended func()) {
	b.c.Host.After(0, func() {
		fn()
		b.c.durable(ended)
	})
}

// Next implements custody.Reader.
func (b bodyRecords) Next(from ring.Pos) (ring.Pos, bool, error) {
	return bodySpace.next(from, b.c.disk.bodies.Scan)
}

// Export implements custody.Reader.
func (b bodyRecords) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return bodySpace.export(pos, from, b.c.disk.bodies.Scan, fn)
}

// Note implements custody.Space.
func (b bodyRecords) Note(ring.Pos) []byte { return nil }

// Remove implements custody.Space.
func (b bodyRecords) Remove(pos ring.Pos) error {
	_, err := b.c.bodies.state.Remove(pos, pos.Next())
	return err
}

// Import implements mover.
func (b bodyRecords) Import(p *custody.Push) error {
	_, _, err := b.c.bodies.state.Import(p.Records)
	return err
}

// copiesOf are the copies of other peers' records of a space that lie here.
type copiesOf struct {
	c     *crawlPeer
	space *space
}

var _ custody.Copies = copiesOf{}

// Sources implements custody.Copies.
func (s copiesOf) Sources() ([]peer.ID, error) {
	names, err := s.c.ship.copies.Sources()
	ids := make([]peer.ID, len(names))
	for i, name := range names {
		ids[i] = peer.ID(name)
	}
	return ids, err
}

// Of implements custody.Copies.
func (s copiesOf) Of(source peer.ID) custody.Reader { return copyRecords{s, string(source)} }

// copyRecords are the records in one copy.
type copyRecords struct {
	copiesOf
	source string
}

func (r copyRecords) scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := []byte{r.space.prefix + 1}
	if hi != nil {
		end = r.space.under(hi)
	}
	return r.c.ship.copies.Scan(r.source, r.space.under(lo), end, func(key, value []byte) bool { return fn(key[1:], value) })
}

// Next implements custody.Reader.
func (r copyRecords) Next(from ring.Pos) (ring.Pos, bool, error) {
	return r.space.next(from, r.scan)
}

// Export implements custody.Reader.
func (r copyRecords) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return r.space.export(pos, from, r.scan, fn)
}
