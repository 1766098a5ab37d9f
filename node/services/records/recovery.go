package records

import (
	"bytes"
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// Recovery of a peer whose database was replaced: the replicas have its records, and range sync
// would delete them there, as it makes a copy equal to its source. So the peer pulls its records
// from all neighbors before it ships anything, and grants nothing until then.

// ServicePull sends a peer the copies of its own records.
const ServicePull = "pull"

const (
	// pullTimeout is the timeout of one request, pullEvery the interval between two rounds.
	pullTimeout = 20 * time.Second
	pullEvery   = 200 * time.Millisecond
	// pullBytes is the size in bytes at which a reply is full.
	pullBytes = 1 << 20
)

var pullMethod = rpc.Method[*wire.Pull, *wire.PullReply]{Service: ServicePull, Within: pullTimeout}

// PullService answers peers that lost their records.
func (k *Keeping) PullService() rpc.Service {
	return pullMethod.Handle(rpc.Members("that the records are copies of its own"), func(_ context.Context, from peer.ID, m *wire.Pull) (*wire.PullReply, error) {
		source := from
		if m.GetKept() {
			source = handoff.Kept(from)
		}
		k.ship.lost(from) // with its records it lost its copies
		prefix := []byte{byte(m.GetSpace())}
		reply, size := &wire.PullReply{}, 0
		err := k.ship.copies.Scan(string(source), append(bytes.Clone(prefix), m.GetKey()...), kv.PrefixEnd(prefix), func(key, value []byte) bool {
			reply.Key, reply.Value = append(reply.Key, bytes.Clone(key[1:])), append(reply.Value, bytes.Clone(value))
			size += len(key) + len(value)
			return size < pullBytes && len(reply.Key) < wire.MaxRecords
		})
		return reply, err
	})
}

// recover pulls the records of this peer from its neighbors, if its database was replaced. It ends
// when each present neighbor has sent all, and the leases that the peer granted before have
// expired.
func (k *Keeping) recover(ctx context.Context) error {
	began := time.Now()
	pulled := make(map[peer.ID]bool)
	for k.ship.recovering.Load() {
		all, err := k.pullFromAll(ctx, pulled)
		if err != nil {
			return loop.UnlessCanceled(err)
		}
		if all && (len(pulled) == 0 || time.Since(began) >= k.ttl) {
			if err := k.recovered(); err != nil {
				return err
			}
			k.ship.recovering.Store(false)
			k.ship.Nudge()
			k.Poke()
			return nil
		}
		if err := loop.Sleep(ctx, pullEvery); err != nil {
			return nil //nolint:nilerr // stopping
		}
	}
	return nil
}

// pullFromAll pulls from the neighbors that have not sent all, and reports whether all have.
func (k *Keeping) pullFromAll(ctx context.Context, pulled map[peer.ID]bool) (all bool, err error) {
	switch k.ring.dht.State() {
	case dht.Worker:
		return true, nil // it owns no records
	case dht.Serving:
	default:
		return false, nil
	}
	all = true
	for _, id := range k.ring.Neighbours() {
		if pulled[id] {
			continue
		}
		if err := k.pullFrom(ctx, id); err != nil {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			k.log.Debug("records not recovered yet", "peer", id, "err", err)
			all = false
			continue
		}
		pulled[id] = true
	}
	return all, nil
}

// pullFrom merges the copies that a neighbor has.
func (k *Keeping) pullFrom(ctx context.Context, id peer.ID) error {
	for _, r := range k.kinds {
		for _, kept := range []bool{false, true} {
			for from := append([]byte{}, headOf(r.prefix)...); from != nil; {
				reply, err := pullMethod.Call(ctx, k.router.Net, id, &wire.Pull{Space: uint32(r.prefix), Key: from, Kept: kept})
				if err != nil {
					return err
				}
				if from, err = k.pulled(ctx, r, id, from, reply); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lost makes the replication send a peer its copy again.
func (r *Replication) lost(id peer.ID) {
	r.mu.Lock()
	r.source.Lost(string(id))
	r.mu.Unlock()
	r.Nudge()
}

// pulled merges one reply, and returns the first key of the next one; nil at the end.
func (k *Keeping) pulled(ctx context.Context, r *kind, id peer.ID, from []byte, reply *wire.PullReply) (next []byte, err error) {
	keys := reply.GetKey()
	if len(keys) == 0 {
		return nil, nil
	}
	p, err := pushOf(r, &wire.Records{Key: keys, Value: reply.GetValue()})
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	if bytes.Compare(last, from) < 0 {
		return nil, rpc.Refuse("pull: key %x follows %x", last, from)
	}
	if err := k.merge(ctx, r, p, func() error { return nil }); err != nil {
		return nil, err
	}
	k.movement.add(moved{how: cameFrom, prefix: r.prefix, peer: id, of: k.self, places: positions(r.prefix, p.Records), records: len(p.Records)})
	return append(bytes.Clone(last), 0), nil
}
