package subnets

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/wire"
)

const (
	// askTimeout bounds a request for records, or the storing of changes, at all peers together: a
	// site must not wait long for records that only save probes.
	askTimeout = 2 * time.Second
	// askTries is the number of tries to read or store a record: at its presumed owner, and then at
	// the one that was looked up.
	askTries = 2
)

// Want requests a record; Held names the version that the caller has.
type Want struct {
	Key  ipmicra.Key // of the record
	Held uint64      // its [Digest]; 0: none
}

// Found is the result for a record.
type Found struct {
	Raw  []byte // its encoding; nil: none
	Same bool   // the caller has this version
}

// Digest distinguishes encodings of one record; never 0. Collisions give no advantage.
func Digest(raw []byte) uint64 {
	h := fnv.New64a()
	h.Write(raw)
	return max(h.Sum64(), 1)
}

// Ask requests records from the ring. Unavailable records are missing in the result.
func (s *Service) Ask(ctx context.Context, wants []Want) map[ipmicra.Key]Found {
	found := make(map[ipmicra.Key]Found, len(wants))
	var mu sync.Mutex // guards found
	spread := spread{
		Service: s, n: len(wants),
		key: func(i int) ipmicra.Key { return wants[i].Key }, size: func(int) int { return 0 },
		fill: func(m *wire.Subnets, i int) {
			k := wants[i].Key
			m.Kind, m.Name, m.Held = append(m.Kind, byte(k.Kind)), append(m.Name, Name(k)), append(m.Held, wants[i].Held)
		},
		take: func(reply *wire.SubnetsReply, at, i int) bool {
			mu.Lock()
			defer mu.Unlock()
			switch wire.SubnetState(reply.GetState()[at]) {
			case wire.SubnetNone:
				found[wants[i].Key] = Found{}
			case wire.SubnetHere:
				found[wants[i].Key] = Found{Raw: reply.GetRecord()[at]}
			case wire.SubnetSame:
				found[wants[i].Key] = Found{Same: true}
			default:
				return false
			}
			return true
		},
	}
	if err := spread.run(ctx); err != nil {
		s.log.Debug("subnet records unavailable", "err", err)
	}
	return found
}

// Store sends changes to the owners of their records, and returns when they are durable there. The
// error contains the number of failed ones.
func (s *Service) Store(ctx context.Context, c ipmicra.Changes) error {
	var keys []ipmicra.Key
	var raws [][]byte
	for _, record := range c.Subnets {
		raw, err := record.AppendBinary(nil)
		if err != nil {
			return err
		}
		keys, raws = append(keys, record.Key()), append(raws, raw)
	}
	for _, x := range c.Indexes {
		raw, err := x.AppendBinary(nil)
		if err != nil {
			return err
		}
		keys, raws = append(keys, x.Key), append(raws, raw)
	}
	spread := spread{
		Service: s, n: len(keys),
		key: func(i int) ipmicra.Key { return keys[i] }, size: func(i int) int { return len(raws[i]) },
		fill: func(m *wire.Subnets, i int) { m.Record = append(m.Record, raws[i]) },
		take: func(reply *wire.SubnetsReply, at, _ int) bool {
			return !slices.Contains(reply.GetMoved(), uint32(at)) // an index of our list
		},
	}
	return spread.run(ctx)
}

// spread sends items with keys to the owners of those, in batches, to all peers concurrently.
type spread struct {
	*Service
	n    int // number of items
	key  func(i int) ipmicra.Key
	size func(i int) int
	// fill adds an item to a message; take reads its part of the reply, and reports whether it is
	// complete.
	fill func(m *wire.Subnets, i int)
	take func(reply *wire.SubnetsReply, at, i int) bool
}

// run returns when all items are complete or have failed; the error contains their number.
func (s *spread) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	left := make([]int, s.n)
	for i := range left {
		left[i] = i
	}
	asked := make([]peer.ID, s.n)
	var last error
	for range askTries {
		var calls sync.WaitGroup
		var mu sync.Mutex // guards next and last
		var next []int
		for _, b := range s.batches(ctx, left, asked) {
			calls.Go(func() {
				reply, err := s.put(ctx, b)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					last = err
				}
				for at, i := range b.things {
					if err != nil || !s.take(reply, at, i) {
						next = append(next, i)
					}
				}
			})
		}
		calls.Wait()
		if left = next; len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d subnet records failed: %w", len(left), s.n, errors.Join(last, ctx.Err()))
}

// batch is one message to a peer; to is empty for items without a known owner.
type batch struct {
	to     peer.ID
	things []int
}

// batches groups items by their presumed owners. A peer that failed is asked again only if a lookup
// names it.
func (s *spread) batches(ctx context.Context, things []int, asked []peer.ID) (list []*batch) {
	open := make(map[peer.ID]*batch)
	size := make(map[peer.ID]int)
	for _, i := range things {
		p, err := s.router.Owner(ctx, s.key(i).Ring(), false)
		if err == nil && p.ID == asked[i] {
			p, err = s.router.Owner(ctx, s.key(i).Ring(), true)
		}
		if err != nil {
			p.ID = ""
		}
		asked[i] = p.ID
		b := open[p.ID]
		if b == nil || len(b.things) >= wire.MaxSubnets || size[p.ID]+s.size(i) > s.full {
			b = &batch{to: p.ID}
			open[p.ID], size[p.ID] = b, 0
			list = append(list, b)
		}
		b.things = append(b.things, i)
		size[p.ID] += s.size(i)
	}
	return list
}

var errNobodyAnswers = errors.New("no owner known")

func (s *spread) put(ctx context.Context, b *batch) (*wire.SubnetsReply, error) {
	if b.to == "" {
		return nil, errNobodyAnswers
	}
	m := new(wire.Subnets)
	for _, i := range b.things {
		s.fill(m, i)
	}
	return s.send(ctx, b.to, m)
}

// send sends a message to a peer.
func (s *Service) send(ctx context.Context, to peer.ID, m *wire.Subnets) (*wire.SubnetsReply, error) {
	return subnetsMethod.Call(ctx, s.router, to, m)
}

// Gone reports whether a peer has left the ring: the ring assigns its position to another, and it
// does not answer.
func (s *Service) Gone(ctx context.Context, id peer.ID) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := s.router.Owner(ctx, ring.PeerKey([]byte(id)), true)
	if err != nil || p.ID == id {
		return false
	}
	_, err = s.send(ctx, id, new(wire.Subnets))
	return errors.Is(err, calls.ErrUnreachable)
}
