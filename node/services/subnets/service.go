package subnets

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceSubnets is the service of the owners of subnet records.
const ServiceSubnets = "subnets"

// subnetsMethod requests records of subnets, and sends changes.
var subnetsMethod = rpc.Method[*wire.Subnets, *wire.SubnetsReply]{
	Service: ServiceSubnets,
	Check: func(q *wire.Subnets, a *wire.SubnetsReply) error {
		return a.Validate(len(q.GetKind()), len(q.GetRecord()))
	},
}

// fullAnswer is the size in bytes at which a reply, or a message of changes, is full: one more
// record still fits into a frame.
const fullAnswer = 2 << 20

// Service serves the records of subnets that this peer owns, and requests others from their owners.
type Service struct {
	*loop.Serial // serializes access to state

	state  *Store
	router *rpc.Router
	log    *slog.Logger
	full   int // fullAnswer
}

// NewService returns a Service, which replies once Run is called.
func NewService(records kv.Store, r *rpc.Router, log *slog.Logger) (*Service, error) {
	state, err := New(records)
	if err != nil {
		return nil, err
	}
	return &Service{Serial: loop.NewSerial(), state: state, router: r, log: log, full: fullAnswer}, nil
}

// Import implements records.State.
func (s *Service) Import(kvs []kv.Record) (wait func() error, err error) {
	return s.state.Import(time.Now(), kvs)
}

// Remove implements records.State.
func (s *Service) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	return s.state.Remove(lo, hi)
}

// Service returns the service for other peers.
func (s *Service) Service() rpc.Service {
	return subnetsMethod.Handle(rpc.Members("this peer owns the record"), s.serve)
}

// serve serves a request, and returns when its changes are on disk and at the replicas.
func (s *Service) serve(ctx context.Context, _ peer.ID, m *wire.Subnets) (*wire.SubnetsReply, error) {
	keys := make([]ipmicra.Key, len(m.GetKind()))
	for i, kind := range m.GetKind() {
		var err error
		if keys[i], err = ParseKey(kind, m.GetName()[i]); err != nil {
			return nil, rpc.Refuse("%v", err)
		}
	}
	brought := make([]change, len(m.GetRecord()))
	for i, raw := range m.GetRecord() {
		var err error
		if brought[i].key, brought[i].changes, err = Parse(raw); err != nil {
			return nil, rpc.Refuse("record %d: %v", i, err)
		}
	}
	reply := &wire.SubnetsReply{}
	var wait func() error
	var err error
	if lerr := s.Do(ctx, func() {
		if wait, err = s.merge(brought, reply); err == nil {
			err = s.answer(keys, m.GetHeld(), reply)
		}
	}); lerr != nil {
		return nil, lerr
	}
	switch {
	case errors.Is(err, ErrFull):
		return nil, rpc.Busy(err.Error())
	case errors.Is(err, ipmicra.ErrRecord):
		return nil, rpc.Refuse("%v", err)
	case err != nil:
		return nil, err
	}
	if err := wait(); err != nil {
		return nil, err
	}
	return reply, nil
}

// change is a change of one record.
type change struct {
	key     ipmicra.Key
	changes ipmicra.Changes
}

// merge merges the changes of records owned here, and lists the others in reply.
func (s *Service) merge(brought []change, reply *wire.SubnetsReply) (wait func() error, err error) {
	var mine ipmicra.Changes
	for i, b := range brought {
		if s.router.Ring.Serves(b.key.Ring()) {
			mine.Subnets, mine.Indexes = append(mine.Subnets, b.changes.Subnets...), append(mine.Indexes, b.changes.Indexes...)
		} else {
			reply.Moved = append(reply.Moved, uint32(i)) // bounded by MaxSubnets
		}
	}
	return s.state.Merge(time.Now(), mine)
}

// answer adds the requested records, until the reply is full.
func (s *Service) answer(keys []ipmicra.Key, held []uint64, reply *wire.SubnetsReply) error {
	size := 0
	for i, k := range keys {
		state, raw := wire.SubnetNone, []byte(nil)
		switch {
		case !s.router.Ring.Serves(k.Ring()):
			state = wire.SubnetMoved
		case size >= s.full:
			state = wire.SubnetLater
		default:
			var err error
			if raw, err = s.state.Get(k); err != nil {
				return err
			}
			if raw != nil && Digest(raw) == held[i] {
				state, raw = wire.SubnetSame, nil
			} else if raw != nil {
				state = wire.SubnetHere
			}
			size += len(raw)
		}
		reply.State = append(reply.State, byte(state))
		reply.Record = append(reply.Record, raw)
	}
	return nil
}
