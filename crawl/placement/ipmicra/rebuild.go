package ipmicra

import (
	"cmp"
	"net/netip"
	"slices"
)

// Rebuild puts another tree in place of the one there was, after registry data changed much.
// Delegations and probes are copied so that no address loses its worker (papers 2.1): a range that
// is in both trees keeps its record; one that is new takes the record of the range that served its
// addresses before; one that takes over the addresses of ranges which are no more takes the record
// of the largest of them, if it has no worker itself. What became wrong is found by calibration.
func (s *Strategy) Rebuild(tree *Tree) {
	old, before := s.memory, s.machine.Tree
	s.memory, s.machine.Tree = NewMemory(), tree
	var gone []*Subnet
	for record := range old.Subnets() {
		if tree.Contains(record.Prefix) || s.loose(record.Prefix) {
			s.copy(record, record.Prefix)
		} else {
			gone = append(gone, record)
		}
	}
	for i := range tree.nodes {
		p := tree.nodes[i].prefix
		if p.IsSingleIP() || !p.IsValid() || before.Contains(p) {
			continue
		}
		if around, ok := before.Parent(p); ok && old.subnets[around] != nil {
			s.copy(old.subnets[around], p)
		}
	}
	slices.SortStableFunc(gone, func(a, b *Subnet) int { return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()) })
	for _, record := range gone {
		into, ok := tree.Parent(record.Prefix)
		if !ok || record.Prefix.IsSingleIP() || !into.IsValid() || into.Bits() == 0 {
			into = record.Prefix
		}
		if now := s.memory.subnets[into]; now == nil || now.Worker == "" {
			s.copy(record, into)
		}
	}
}

// loose says whether a range that nobody registered is a subnet all the same, as the tree would
// locate an address in it.
func (s *Strategy) loose(p netip.Prefix) bool {
	at, ok := s.machine.Tree.Locate(p.Addr())
	return ok && at.Subnet == p
}

// copy takes a record over for a range, with its worker.
func (s *Strategy) copy(record *Subnet, p netip.Prefix) {
	s.memory.Merge(Changes{Subnets: []*Subnet{{Prefix: p, Probes: record.Probes, Epoch: record.Epoch, Worker: "", Since: record.Since}}})
	if record.Worker != "" {
		var c Changes
		s.machine.assign(&c, s.memory, p, record.Worker, record.Epoch.Peer, record.Since)
		s.memory.Merge(c)
	}
}
