package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/subnets"
	"github.com/apoidea/apoidea/node/wire"
)

const (
	// subnetTimeout bounds a question for records, or the bringing of changes, to all peers together: a site is not to wait long for what only saves probes.
	subnetTimeout = 2 * time.Second
	// subnetTries is how often a record is asked for, or brought: of the peer believed to answer for it, and then of the one that was looked up.
	subnetTries = 2
)

// subnetWant asks for a record of which the asker may have the one with this digest.
type subnetWant struct {
	key  ipmicra.Key
	held uint64
}

// subnetFound is what is known of a record: there is the one of these bytes, or none, or the same that the asker has.
type subnetFound struct {
	raw  []byte
	same bool
}

// ask asks the ring for records. What is not in the answer could not be had.
func (s *subnetService) ask(ctx context.Context, wants []subnetWant) map[ipmicra.Key]subnetFound {
	found := make(map[ipmicra.Key]subnetFound, len(wants))
	var mu sync.Mutex // guards found
	spread := spread{
		subnetService: s, n: len(wants),
		key: func(i int) ipmicra.Key { return wants[i].key }, size: func(int) int { return 0 },
		fill: func(m *wire.Subnets, i int) {
			k := wants[i].key
			m.Kind, m.Name, m.Held = append(m.Kind, byte(k.Kind)), append(m.Name, subnets.Name(k)), append(m.Held, wants[i].held)
		},
		take: func(reply *wire.SubnetsReply, at, i int) bool {
			mu.Lock()
			defer mu.Unlock()
			switch wire.SubnetState(reply.GetState()[at]) {
			case wire.SubnetNone:
				found[wants[i].key] = subnetFound{}
			case wire.SubnetHere:
				found[wants[i].key] = subnetFound{raw: reply.GetRecord()[at]}
			case wire.SubnetSame:
				found[wants[i].key] = subnetFound{same: true}
			default:
				return false
			}
			return true
		},
	}
	if err := spread.run(ctx); err != nil {
		s.log.Debug("records of subnets not had", "err", err)
	}
	return found
}

// tell brings changes to the peers that answer for their places, and returns when they are safe there. The error says how many are not.
func (s *subnetService) tell(ctx context.Context, c ipmicra.Changes) error {
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
		subnetService: s, n: len(keys),
		key: func(i int) ipmicra.Key { return keys[i] }, size: func(i int) int { return len(raws[i]) },
		fill: func(m *wire.Subnets, i int) { m.Record = append(m.Record, raws[i]) },
		take: func(reply *wire.SubnetsReply, at, _ int) bool {
			for _, moved := range reply.GetMoved() {
				if int(moved) == at {
					return false
				}
			}
			return true
		},
	}
	return spread.run(ctx)
}

// spread puts things that have keys to the peers that answer for those, in batches, all peers at the same time.
type spread struct {
	*subnetService
	n    int // things
	key  func(i int) ipmicra.Key
	size func(i int) int
	// fill puts a thing into a message; take reads what its place in the answer says, and whether it is done with.
	fill func(m *wire.Subnets, i int)
	take func(reply *wire.SubnetsReply, at, i int) bool
}

// run returns when all things are done with, or it has been tried. The error says how many are not.
func (s *spread) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, subnetTimeout)
	defer cancel()
	left := make([]int, s.n)
	for i := range left {
		left[i] = i
	}
	asked := make([]peer.ID, s.n)
	var last error
	for range subnetTries {
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
	return fmt.Errorf("%d of %d records of subnets: %w", len(left), s.n, errors.Join(last, ctx.Err()))
}

// subnetBatch is what goes to one peer in one message; to is empty for things that nobody is known to answer for.
type subnetBatch struct {
	to     peer.ID
	things []int
}

// batches groups things by the peers that are believed to answer for them. One that was asked in vain is asked again only if a lookup names it.
func (s *spread) batches(ctx context.Context, things []int, asked []peer.ID) (list []*subnetBatch) {
	open := make(map[peer.ID]*subnetBatch)
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
			b = &subnetBatch{to: p.ID}
			open[p.ID], size[p.ID] = b, 0
			list = append(list, b)
		}
		b.things = append(b.things, i)
		size[p.ID] += s.size(i)
	}
	return list
}

var errNobodyAnswers = errors.New("nobody is known to answer for them")

func (s *spread) put(ctx context.Context, b *subnetBatch) (*wire.SubnetsReply, error) {
	if b.to == "" {
		return nil, errNobodyAnswers
	}
	m := new(wire.Subnets)
	for _, i := range b.things {
		s.fill(m, i)
	}
	return s.send(ctx, b.to, m)
}

// send puts a message to a peer.
func (s *subnetService) send(ctx context.Context, to peer.ID, m *wire.Subnets) (*wire.SubnetsReply, error) {
	return aboutSubnets.Call(ctx, s.router, to, m)
}

// gone says of a peer that it is in the ring no more: the ring gives its place to another, and it does not answer.
func (s *subnetService) gone(ctx context.Context, id peer.ID) bool {
	ctx, cancel := context.WithTimeout(ctx, subnetTimeout)
	defer cancel()
	p, err := s.router.Owner(ctx, ring.PeerKey([]byte(id)), true)
	if err != nil || p.ID == id {
		return false
	}
	_, err = s.send(ctx, id, new(wire.Subnets))
	return errors.Is(err, p2p.ErrUnreachable)
}
