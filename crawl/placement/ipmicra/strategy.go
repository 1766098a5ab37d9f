package ipmicra

import (
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/apoidea/apoidea/crawl/placement"
)

// maxChoices bounds the local choices.
const maxChoices = 1 << 16

// Strategy is IPMicra over one memory: the paper's coordinator, or a single peer. See
// [placement.Strategy].
type Strategy struct {
	machine Machine
	memory  *Memory
	own     *simplelru.LRU[choice, string] // where the worker of a subnet is no candidate
	seeded  map[string]netip.Addr
}

type choice struct {
	owner  string
	subnet netip.Prefix
}

// New returns a strategy over a tree, with the threshold T; zero or less selects
// [DefaultThreshold].
func New(tree *Tree, threshold time.Duration) *Strategy {
	return Machine{Tree: tree, Threshold: threshold}.Strategy()
}

// Strategy returns a strategy with this configuration and a memory of its own.
func (m Machine) Strategy() *Strategy {
	if m.Threshold <= 0 {
		m.Threshold = DefaultThreshold
	}
	own, _ := simplelru.NewLRU[choice, string](maxChoices, nil) // a positive size has no error
	return &Strategy{machine: m, memory: NewMemory(), seeded: make(map[string]netip.Addr), own: own}
}

// Next implements [placement.Strategy]. It first delegates the subnet of each candidate with a new
// address to it.
func (s *Strategy) Next(v *placement.View) placement.Choice {
	for i := range v.Candidates {
		s.join(v.Now, &v.Candidates[i])
	}
	if len(v.Candidates) == 0 {
		return placement.Choice{Why: "no candidates"}
	}
	view := *v
	at, located := s.machine.Tree.Locate(v.Site)
	owner := placement.Keeper(v.Candidates)
	if view.Known == "" && located {
		view.Known, _ = s.own.Get(choice{owner, at.Subnet})
	}
	step := s.machine.Next(&view, s.memory)
	if step.Probe != "" {
		return placement.Choice{Probe: []string{step.Probe}}
	}
	s.memory.Merge(step.Changes)
	if step.Local && located && !v.Tiny {
		s.own.Add(choice{owner, at.Subnet}, step.Worker)
	}
	return placement.Choice{Worker: step.Worker, Unsure: step.Unsure, Why: step.Why}
}

// maxSeeded bounds the peers remembered as seeded; one that was evicted is seeded again, which has
// no effect if the subnet is delegated.
const maxSeeded = 1 << 16

func (s *Strategy) join(now time.Time, c *placement.Candidate) {
	if !c.Addr.IsValid() || s.seeded[c.Peer] == c.Addr {
		return
	}
	if len(s.seeded) >= maxSeeded {
		clear(s.seeded)
	}
	s.seeded[c.Peer] = c.Addr
	changes, _ := s.machine.Seed(c.Peer, c.Addr, now, s.memory) // a Memory has all records
	s.memory.Merge(changes)
}

// Rebuild replaces the tree, after large changes of the registry data (papers 2.1). A range in both
// trees retains its record; see [Machine] for new ones.
func (s *Strategy) Rebuild(tree *Tree) { s.machine.Before, s.machine.Tree = s.machine.Tree, tree }

// Worker returns the worker of the sites around an address, with their subnet; the worker is empty
// if none was chosen yet.
func (s *Strategy) Worker(addr netip.Addr) (subnet netip.Prefix, worker string) {
	at, ok := s.machine.Tree.Locate(addr)
	if !ok {
		return netip.Prefix{}, ""
	}
	if record := s.memory.subnets[at.Subnet]; record != nil {
		worker = record.Worker
	}
	return at.Subnet, worker
}

// Memory returns the strategy's records.
func (s *Strategy) Memory() *Memory { return s.memory }
