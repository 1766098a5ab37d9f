package placer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/subnets"
)

const (
	// delegatedAge is the cache time of a subnet that has a worker; delegations change seldom, and
	// slower fetches have them delegated again.
	delegatedAge = 30 * time.Second
	// recordAge is the cache time of other records: an outdated one costs a probe that another owner
	// has just made unnecessary.
	recordAge = 10 * time.Second
	// recordsKept bounds the records in memory, in entries and probes, some 150 bytes each.
	recordsKept = 1 << 17
	// choicesKept bounds this peer's local choices, which are cached for choiceAge.
	choicesKept = 4096
	choiceAge   = 10 * time.Minute
	// recordRounds bounds the record requests of a search before it continues with the records that it
	// has: an index leads to another at each level of the tree, and there are seldom more than eight.
	// roundKeys bounds one request.
	recordRounds = 10
	roundKeys    = 256
	// turnTime is the time for which a search waits for another in the same subnet, which may make its
	// own unnecessary.
	turnTime = 4 * time.Second
)

// Records stores the records of subnets: a [subnets.Service].
type Records interface {
	// Ask requests records from the ring. Unavailable records are missing in the result.
	Ask(ctx context.Context, wants []subnets.Want) map[ipmicra.Key]subnets.Found
	// Tell stores changes on the ring, and returns when they are durable there.
	Store(ctx context.Context, c ipmicra.Changes) error
	// Gone reports whether a peer has left the ring.
	Gone(ctx context.Context, id peer.ID) bool
}

// delegations implements the strategy ipmicra (papers 2, 2.5): the search of package ipmicra over
// records that are distributed over the ring. It is safe for concurrent use.
type delegations struct {
	self    string
	machine ipmicra.Machine
	records Records
	log     *slog.Logger

	mu    sync.Mutex // guards what follows; never held during network calls
	cache *simplelru.LRU[ipmicra.Key, cached]
	held  int                                     // weight of cache
	own   *simplelru.LRU[netip.Prefix, ownChoice] // for subnets whose worker is not a candidate here
	turns map[netip.Prefix]chan struct{}          // closed when the search is over
}

// ownChoice is a local choice of a subnet's worker.
type ownChoice struct {
	worker string
	when   time.Time
}

func newDelegations(tree *ipmicra.Tree, self string, records Records, log *slog.Logger) *delegations {
	d := &delegations{
		machine: ipmicra.Machine{Tree: tree, Threshold: ipmicra.DefaultThreshold}, self: self, records: records, log: log,
		turns: make(map[netip.Prefix]chan struct{}),
	}
	// Positive sizes have no error.
	d.cache, _ = simplelru.NewLRU(recordsKept, func(_ ipmicra.Key, c cached) { d.held -= c.weight() })
	d.own, _ = simplelru.NewLRU[netip.Prefix, ownChoice](choicesKept, nil)
	return d
}

// loadTree reads the hierarchy of IP ranges. Without a file it is empty: then each /24 and each /48
// is a subnet without organization.
func loadTree(path string) (*ipmicra.Tree, error) {
	var networks []registry.Network
	if path != "" {
		var err error
		if networks, err = registry.Load(path); err != nil {
			return nil, err
		}
	}
	tree, err := ipmicra.Build(networks)
	if err != nil {
		return nil, fmt.Errorf("hierarchy %s: %w", path, err)
	}
	return tree, nil
}

// hostSearch is the search for the worker of one host.
type hostSearch struct {
	knowing
	place  *owner.Place
	at     ipmicra.Place
	turn   chan struct{} // closed by this search, if its own
	begun  bool
	remark string // for display
}

func (d *delegations) search(p *owner.Place) *hostSearch {
	return &hostSearch{knowing: d.know(), place: p}
}

// end lets waiting searches in the same subnet continue.
func (s *hostSearch) end() {
	if s.turn == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.turns, s.at.Subnet)
	close(s.turn)
}

// next returns a peer to probe, or the worker, after its changes were sent to the ring. It is
// called again with the measurements.
func (s *hostSearch) next(ctx context.Context, v *placement.View) placement.Choice {
	if len(v.Candidates) == 0 {
		return placement.Choice{Why: "no candidates"}
	}
	view := *v
	at, located := s.machine.Tree.Locate(v.Site)
	if located {
		if s.at = at; !s.begun {
			s.begun = true
			s.begin(ctx, v)
		}
		if !v.Tiny {
			view.Known = s.ownChoice(v.Now)
		}
	}
	step := s.step(ctx, func() (ipmicra.Step, []ipmicra.Key) {
		step := s.machine.Next(&view, s)
		return step, step.Need
	})
	if step.Probe != "" {
		return placement.Choice{Probe: []string{step.Probe}}
	}
	s.change(step.Changes)
	_ = s.write(ctx) // already logged; the worker is valid regardless
	if located && step.Local && !v.Tiny {
		s.keepChoice(step.Worker, v.Now)
	}
	return placement.Choice{Worker: step.Worker, Unsure: step.Unsure, Why: s.why(step, located && !v.Tiny)}
}

// begin checks whether the subnet has its worker, in the usual case without further requests. The
// subnet is taken from a worker that has left, from which this host has become slow, or that was
// overloaded: by the paper's rule for load (2.4) the next best peer of its probes gets it then,
// since the host with the least variance of its probes was taken.
func (s *hostSearch) begin(ctx context.Context, v *placement.View) {
	if s.delegated(ctx, v) {
		return
	}
	if s.await(ctx) && s.delegated(ctx, v) {
		return
	}
	record, _ := s.Subnet(s.at.Subnet)
	if record == nil || record.Worker == "" || v.Tiny {
		return
	}
	isWorker := func(c placement.Candidate) bool { return c.Peer == record.Worker }
	next := record.NextBest(v.Candidates)
	switch {
	case s.slow(record):
		s.remark = "delegated again: downloads became slower"
		s.give(ctx, s.at.Subnet, "", v.Now)
	case s.place.Relieved && s.place.Known == record.Worker && next != "":
		s.remark = "delegated to its next best crawler: its worker was overloaded"
		s.give(ctx, s.at.Subnet, next, v.Now)
	case slices.ContainsFunc(v.Candidates, isWorker) || slices.Contains(s.place.Exclude, record.Worker) || s.ownChoice(v.Now) != "":
	case s.records.Gone(ctx, peer.ID(record.Worker)):
		s.remark = "delegated again: its worker left"
		s.give(ctx, s.at.Subnet, "", v.Now)
	}
}

// delegated reports whether the subnet has a worker that can take the host, or the host is too
// small for a search.
func (s *hostSearch) delegated(ctx context.Context, v *placement.View) bool {
	good := func(record *ipmicra.Subnet) bool {
		able := func(c placement.Candidate) bool { return c.Peer == record.Worker }
		return record != nil && record.Worker != "" && slices.ContainsFunc(v.Able(), able) && !s.slow(record)
	}
	// While the cached record is not good, the ring is asked each time: another owner may just have
	// found a worker.
	s.knowing.learnUnless(ctx, []ipmicra.Key{{Kind: ipmicra.KindSubnet, Prefix: s.at.Subnet}}, func(c cached) bool {
		return time.Since(c.when) < delegatedAge && good(c.subnet)
	})
	record, _ := s.Subnet(s.at.Subnet)
	s.deaf = good(record) || v.Tiny
	return s.deaf
}

// slow reports whether fetches by the subnet's worker have become slower, by the host's owner, and
// the subnet was not delegated again since.
func (s *hostSearch) slow(record *ipmicra.Subnet) bool {
	return s.place.Remeasure && s.place.Known == record.Worker && record.Since.Before(s.place.MeasuredAt)
}

// await serializes the searches in a subnet, so that the next uses the result, and reports whether
// it waited. The wait is bounded.
func (s *hostSearch) await(ctx context.Context) (waited bool) {
	timer := time.NewTimer(turnTime)
	defer timer.Stop()
	for s.turn == nil {
		s.mu.Lock()
		before := s.turns[s.at.Subnet]
		if before == nil {
			s.turn = make(chan struct{})
			s.turns[s.at.Subnet] = s.turn
		}
		s.mu.Unlock()
		if before == nil {
			break
		}
		waited = true
		select {
		case <-before:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
	return waited
}

func (s *hostSearch) ownChoice(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.own.Get(s.at.Subnet)
	if !ok || now.Sub(c.when) > choiceAge {
		return ""
	}
	return c.worker
}

func (s *hostSearch) keepChoice(worker string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.Add(s.at.Subnet, ownChoice{worker, now})
}

// why describes for display how a host got its worker, and whether that is a shared delegation or a
// local choice.
func (s *hostSearch) why(step ipmicra.Step, searched bool) string {
	text := step.Why
	if searched {
		record, _ := s.Subnet(s.at.Subnet)
		switch {
		case !step.Local && len(step.Changes.Subnets) > 0:
			text += fmt.Sprintf("; %v is delegated to it now", s.at.Subnet)
		case step.Local && record != nil && record.Worker != "":
			text += fmt.Sprintf("; local choice: %v is delegated to %s", s.at.Subnet, member.Short(peer.ID(record.Worker)))
		}
	}
	if s.remark != "" {
		text += "; " + s.remark
	}
	if s.missed > 0 {
		text += fmt.Sprintf("; %d records of the ring were unavailable", s.missed)
	}
	return text
}

// seed delegates the subnet of this peer to it, if that has no worker (papers 2.1). After an error
// the delegation is not yet on the ring.
func (d *delegations) seed(ctx context.Context, addr netip.Addr) error {
	k, now := d.know(), time.Now()
	c := k.step(ctx, func() (ipmicra.Step, []ipmicra.Key) {
		c, need := k.machine.Seed(d.self, addr, now, &k)
		return ipmicra.Step{Changes: c}, need
	})
	if k.missed > 0 {
		return fmt.Errorf("%d records of subnets were unavailable", k.missed)
	}
	k.change(c.Changes)
	return k.write(ctx)
}

const (
	// whereEvery is the interval of checks of this peer's address; whereAgain is the delay of a retry
	// to seed the ring.
	whereEvery = time.Minute
	whereAgain = 2 * time.Second
)

// run delegates the current subnet of this peer to it, until ctx ends.
func (d *delegations) run(ctx context.Context, where func() netip.Addr) error {
	var told netip.Addr
	for {
		wait := whereEvery
		if addr := where(); addr.IsValid() && addr != told {
			if err := d.seed(ctx, addr); err != nil {
				d.log.Debug("own subnet not yet delegated to this peer", "addr", addr, "err", err)
				wait = whereAgain
			} else {
				told = addr
			}
		}
		if err := loop.Sleep(ctx, wait); err != nil {
			return loop.UnlessCanceled(err)
		}
	}
}
