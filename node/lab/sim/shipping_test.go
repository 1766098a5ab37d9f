package sim

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// replicaTimeout is the timeout of one message to a follower.
const replicaTimeout = 10 * time.Second

// shipping replicates a peer's records to its next successors, and stores its predecessors'
// records, as the node does.
type shipping struct {
	c       *crawlPeer
	source  *replica.Source
	copies  *replica.Copies
	deposed map[peer.ID]bool
	names   []string
	again   alarm
}

func newShipping(c *crawlPeer) *shipping {
	s := &shipping{c: c, source: replica.NewSource(replica.Config{Incarnation: c.disk.starts}), deposed: make(map[peer.ID]bool)}
	s.again = alarm{c: c, do: s.pump}
	s.copies = replica.NewCopies(copyStore{&c.disk.copies})
	return s
}

func (s *shipping) append(ops []replica.Op) { s.source.Append(ops) }

// durable returns the number up to which entries are on all required disks. Nothing more is
// acknowledged once another peer has taken the arc over.
func (s *shipping) durable() uint64 {
	if len(s.deposed) > 0 {
		return 0
	}
	return s.source.Durable()
}

// follow sets the source's followers.
func (s *shipping) follow() {
	var names []string
	for _, id := range s.c.view.succs[:min(s.c.world.cfg.Replicas-1, len(s.c.view.succs))] {
		names = append(names, string(id))
	}
	if slices.Equal(names, s.names) {
		return
	}
	s.names = names
	s.source.Follow(names, func(name string) bool { return !slices.Contains(s.c.view.leaves, peer.ID(name)) })
	for id := range s.deposed {
		if !slices.Contains(names, string(id)) {
			delete(s.deposed, id)
		}
	}
	s.pump()
	s.c.release()
}

// pump executes the source's calls and scans.
func (s *shipping) pump() {
	for {
		calls, scans, again := s.source.Next(s.c.world.Now())
		for _, call := range calls {
			s.call(call)
		}
		for _, scan := range scans {
			s.scan(scan)
		}
		if len(calls)+len(scans) == 0 {
			s.again.set(again)
			return
		}
	}
}

// scan reads records for range sync.
func (s *shipping) scan(scan replica.Scan) {
	into := s.source.Collect(scan)
	err := records.Hand(scan.Lo, into, func(prefix byte) kv.Store {
		switch prefix {
		case bodySpace.Prefix:
			return copyStore{&s.c.disk.bodies}
		case hostSpace.Prefix:
			return copyStore{&s.c.disk.hosts}
		}
		return copyStore{new(store)}
	})
	if err != nil {
		s.c.world.fail(err)
	}
	if call, ok := s.source.Scanned(s.c.world.Now(), into, nil); ok {
		s.call(call)
	}
}

// errMoved refuses a source when the follower serves its arc.
type errMoved struct{}

func (s *shipping) call(call replica.Call) {
	w := s.c.world
	to := peer.ID(call.To)
	w.request(s.c, to, &request{
		Purpose: Replication, Size: len(call.Message), Timeout: replicaTimeout,
		Handle: func(target *crawlPeer, reply func(int, any)) { target.ship.handle(s.c.Peer.ID, call.Message, reply) },
		Done: func(answer any, err error) {
			raw, _ := answer.([]byte)
			if _, moved := answer.(errMoved); moved {
				s.deposed[to] = true
				err = dhtsim.ErrRefused
			} else if err == nil {
				delete(s.deposed, to)
			}
			s.source.Result(w.Now(), call.ID, raw, err)
			s.pump()
			s.c.release()
		},
	})
}

// handle processes a message of a source.
func (s *shipping) handle(from peer.ID, message []byte, reply func(int, any)) {
	if s.c.Serves(ring.PeerKey([]byte(from))) {
		reply(2, errMoved{})
		return
	}
	raw, _, err := s.copies.Handle(string(from), message)
	if err != nil {
		s.c.world.fail(err)
		return
	}
	s.c.moving.poke() // there may be a new source
	s.c.Host.After(diskTime, func() { reply(len(raw), raw) })
}
