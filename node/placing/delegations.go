package placing

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/subnets"
)

const (
	// delegatedAge is how long a subnet that has a worker is believed to have it; delegations
	// change seldom, and calibration finds those that should.
	delegatedAge = 30 * time.Second
	// recordAge is how long other records are believed: an old one costs a probe that an owner
	// elsewhere has just made unnecessary.
	recordAge = 10 * time.Second
	// recordsKept bounds the records in memory, in entries and probes, some 150 bytes each.
	recordsKept = 1 << 17
	// choicesKept bounds the choices that this peer keeps to itself, believed for choiceAge.
	choicesKept = 4096
	choiceAge   = 10 * time.Minute
	// recordRounds bounds how often a search asks the ring for records before it goes on with what
	// it has: an index leads to another at each level of the tree, and there are seldom more than
	// eight. roundKeys bounds what it asks for at a time.
	recordRounds = 10
	roundKeys    = 256
	// turnTime is how long a search waits for another in the same subnet, which may make its own
	// unnecessary.
	turnTime = 4 * time.Second
)

// Records is where the records of subnets are: a [subnets.Service].
type Records interface {
	// Ask asks the ring for records. What is not in the answer could not be had.
	Ask(ctx context.Context, wants []subnets.Want) map[ipmicra.Key]subnets.Found
	// Tell brings changes to the ring, and returns when they are safe there.
	Tell(ctx context.Context, c ipmicra.Changes) error
	// Gone says of a peer that it is in the ring no more.
	Gone(ctx context.Context, id peer.ID) bool
}

// delegations is the strategy ipmicra in a live peer (papers 2, 2.5): the search of package ipmicra
// over records that lie with peers all over the ring. It is safe for concurrent use.
type delegations struct {
	self    string
	records Records
	log     *slog.Logger
	// spawn runs something beside what calls it, until the peer ends.
	spawn func(fn func(ctx context.Context))

	file hierarchy // of the ranges, which run alone reads again

	mu          sync.Mutex // guards what follows; never held over the network
	machine     ipmicra.Machine
	cache       *aging.Map[ipmicra.Key, cached]
	own         *aging.Map[netip.Prefix, ownChoice] // where the worker of a subnet is no candidate here
	calibration *ipmicra.Calibration
	turns       map[netip.Prefix]chan struct{} // closed when the search is over
}

// ownChoice is a worker of a subnet that this peer keeps to itself.
type ownChoice struct {
	worker string
	when   time.Time
}

func newDelegations(tree *ipmicra.Tree, threshold time.Duration, self string, records Records, spawn func(func(context.Context)), log *slog.Logger) *delegations {
	return &delegations{
		machine: ipmicra.Machine{Tree: tree, Threshold: threshold}, self: self, records: records, log: log, spawn: spawn,
		cache: aging.New[ipmicra.Key](recordsKept, cached.weight), own: aging.New[netip.Prefix, ownChoice](choicesKept, nil),
		calibration: ipmicra.NewCalibration(), turns: make(map[netip.Prefix]chan struct{}),
	}
}

// loadTree reads the hierarchy of IP ranges. Without a file it is empty: then each /24 and each /48
// is a subnet of its own, of no organisation.
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

// hierarchy is a file of IP ranges as it was read last.
type hierarchy struct {
	path       string
	read, seen fileState // when it was read, and when it was looked at
}

// fileState tells a file that was changed from what it was; the zero value is that of none.
type fileState struct{ size, at int64 }

// newHierarchy looks at a file that is about to be read.
func newHierarchy(path string) hierarchy {
	h := hierarchy{path: path}
	h.changed()
	h.read = h.seen
	return h
}

// changed looks whether the file is another than the one that was read, and takes it as read. One
// that changed since the last look may be half written, and waits for the next.
func (h *hierarchy) changed() bool {
	var now fileState
	if info, err := os.Stat(h.path); err == nil && h.path != "" {
		now = fileState{info.Size(), info.ModTime().UnixNano()}
	}
	settled := now == h.seen
	h.seen = now
	if !settled || now == h.read {
		return false
	}
	h.read = now
	return true
}

// reread takes over the file of ranges if it has changed (papers 2.1). If it cannot be read the
// ranges stay as they were.
func (d *delegations) reread() {
	if !d.file.changed() {
		return
	}
	tree, err := loadTree(d.file.path)
	if err != nil {
		d.log.Warn("the hierarchy changed and cannot be read: its ranges stay as they were", "err", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.machine.Before, d.machine.Tree = d.machine.Tree, tree
	d.log.Info("the hierarchy changed and was read again", "hierarchy", d.file.path, "ranges", tree.Size())
}

// hostSearch is the search for the worker of one host.
type hostSearch struct {
	knowing
	place  *owner.Place
	at     ipmicra.Place
	turn   chan struct{} // to be closed, if it is this search's
	begun  bool
	remark string // for people
}

func (d *delegations) search(p *owner.Place) *hostSearch {
	return &hostSearch{knowing: d.know(), place: p}
}

// end lets searches in the same subnet go on.
func (s *hostSearch) end() {
	if s.turn == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.turns, s.at.Subnet)
	close(s.turn)
}

// next names a peer to probe, or the worker; what that changes is on the ring then, or could not be
// brought there. Called again with what was measured.
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
	_ = s.write(ctx) // said by then; the host has its worker all the same
	if located && step.Local && !v.Tiny {
		s.keepChoice(step.Worker, v.Now)
	}
	return placement.Choice{Worker: step.Worker, Unsure: step.Unsure, Why: s.why(step, located && !v.Tiny)}
}

// begin looks whether the subnet has its worker, which it mostly has, so that nothing else need be
// asked for. A worker that is gone loses it, and so does one from which this host has become slow,
// or was taken as it had its hands full: by the paper's rule for load (2.4) the next best of its
// probes gets it then, as the host was taken whose probes vary least.
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
		s.remark = "delegated anew, as downloads became slower"
		s.give(ctx, s.at.Subnet, "", v.Now)
	case s.place.Relieved && s.place.Known == record.Worker && next != "":
		s.remark = "given to its next best crawler, as its worker had its hands full"
		s.give(ctx, s.at.Subnet, next, v.Now)
	case slices.ContainsFunc(v.Candidates, isWorker) || slices.Contains(s.place.Exclude, record.Worker) || s.ownChoice(v.Now) != "":
	case s.records.Gone(ctx, peer.ID(record.Worker)):
		s.remark = "delegated anew, as its worker is gone"
		s.give(ctx, s.at.Subnet, "", v.Now)
	}
}

// delegated says whether the subnet has a worker that can take the host, or the host is not worth a
// search. Then nothing else is asked for.
func (s *hostSearch) delegated(ctx context.Context, v *placement.View) bool {
	good := func(record *ipmicra.Subnet) bool {
		able := func(c placement.Candidate) bool { return c.Peer == record.Worker }
		return record != nil && record.Worker != "" && slices.ContainsFunc(v.Able(), able) && !s.slow(record)
	}
	s.learnSite(ctx, s.at.Subnet, good)
	record, _ := s.Subnet(s.at.Subnet)
	s.deaf = good(record) || v.Tiny
	return s.deaf
}

// slow says whether the host's owner found that fetches by the subnet's worker have become slower,
// and nobody has taken the subnet from it since.
func (s *hostSearch) slow(record *ipmicra.Subnet) bool {
	return s.place.Remeasure && s.place.Known == record.Worker && record.Since.Before(s.place.MeasuredAt)
}

// await lets one search at a time go on in a subnet, so that the next finds what it came to; it
// says whether there was one to wait for. It ends late rather than never.
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
	s.own.Set(s.at.Subnet, ownChoice{worker, now})
}

// why says for people how a host came to its worker, and whether that is a delegation that all
// share or this owner's own choice.
func (s *hostSearch) why(step ipmicra.Step, searched bool) string {
	text := step.Why
	if searched {
		record, _ := s.Subnet(s.at.Subnet)
		switch {
		case !step.Local && len(step.Changes.Subnets) > 0:
			text += fmt.Sprintf("; %v is delegated to it now", s.at.Subnet)
		case step.Local && record != nil && record.Worker != "":
			text += fmt.Sprintf("; this owner's own choice, as %v is delegated to %s", s.at.Subnet, p2p.Short(peer.ID(record.Worker)))
		}
	}
	if s.remark != "" {
		text += "; " + s.remark
	}
	if s.missed > 0 {
		text += fmt.Sprintf("; %d records of the ring could not be read", s.missed)
	}
	return text
}

// Observe learns from a download that was reported to this owner (papers 2.4). It does not block.
func (d *delegations) Observe(f *placement.Fetch) {
	d.mu.Lock()
	at, ok := d.machine.Tree.Locate(f.Site)
	slow := ok && d.calibration.Slow(at.Subnet, f)
	d.mu.Unlock()
	if !slow {
		return
	}
	d.spawn(func(ctx context.Context) {
		k := d.know()
		k.learnSite(ctx, at.Subnet, func(*ipmicra.Subnet) bool { return false })
		if record, _ := k.Subnet(at.Subnet); record != nil && record.Worker == f.Worker {
			k.give(ctx, at.Subnet, "", time.Now())
			_ = k.write(ctx) // said by then; if nobody hears of it the next slow downloads come
		}
	})
}

// seed delegates to this peer the subnet that it lives in, if nobody has it (papers 2.1). The error
// says that this is not on the ring yet.
func (d *delegations) seed(ctx context.Context, addr netip.Addr) error {
	k, now := d.know(), time.Now()
	c := k.step(ctx, func() (ipmicra.Step, []ipmicra.Key) {
		c, need := k.machine.Seed(d.self, addr, now, &k)
		return ipmicra.Step{Changes: c}, need
	})
	if k.missed > 0 {
		return fmt.Errorf("%d records of subnets could not be read", k.missed)
	}
	k.change(c.Changes)
	return k.write(ctx)
}

const (
	// whereEvery is how often a peer looks where it is, and whether its file of ranges has changed;
	// whereAgain the wait before it says where it is once more to a ring that did not hear.
	whereEvery = time.Minute
	whereAgain = 2 * time.Second
)

// run seeds the ring with the subnet of this peer, wherever it goes, and reads the file of ranges
// again when it has changed, until ctx ends.
func (d *delegations) run(ctx context.Context, where func() netip.Addr) error {
	var told netip.Addr
	looked := time.Now()
	for {
		if time.Since(looked) >= whereEvery {
			looked = time.Now()
			d.reread()
		}
		wait := whereEvery
		if addr := where(); addr.IsValid() && addr != told {
			if err := d.seed(ctx, addr); err != nil {
				d.log.Debug("this peer's own subnet is not delegated to it yet", "addr", addr, "err", err)
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
