package ipmicra

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/registry"
)

const (
	// maxNetworks of a tree: some twenty times those of all registries, and 3 GB.
	maxNetworks = 1 << 25
	// MaxOrganisation is the length in bytes of an organization's name.
	MaxOrganisation = 512
)

// Tree is the hierarchy of IP ranges (papers 2.1). It is immutable and safe for concurrent use. Its
// root stands for all addresses, with the zero prefix, and has 0.0.0.0/0 and ::/0 below it: so a
// search continues from one family to the other.
type Tree struct {
	nodes []node // in the order of addresses, larger ranges first: the ranges below node i are i+1 to nodes[i].end
	at    bart.Table[int32]
	unary map[netip.Addr]int32
	names []string // organisations, the empty one first
}

type node struct {
	prefix       netip.Prefix
	parent, end  int32
	organisation int32 // own or inherited
}

// nodeAll is the root, the first node.
const nodeAll = 0

var (
	ipv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	ipv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// Build nests networks, in any order. Of several with the same range the first with an organization
// counts. The error contains the index of the first invalid network, from zero.
func Build(networks []registry.Network) (*Tree, error) {
	t := &Tree{unary: make(map[netip.Addr]int32), names: []string{""}}
	ids := map[string]int32{"": 0}
	t.nodes = append(t.nodes, node{prefix: ipv4}, node{prefix: ipv6})
	for i, n := range networks {
		prefix, err := plain(n.Prefix)
		switch {
		case err != nil:
			return nil, fmt.Errorf("network %d: %w", i, err)
		case len(n.Org) > MaxOrganisation:
			return nil, fmt.Errorf("network %d, %v: organization of %d bytes, at most %d", i, prefix, len(n.Org), MaxOrganisation)
		case i >= maxNetworks:
			return nil, fmt.Errorf("limit of %d networks exceeded", maxNetworks)
		}
		id, ok := ids[n.Org]
		if !ok {
			id = int32(len(t.names)) // at most maxNetworks
			ids[n.Org] = id
			t.names = append(t.names, n.Org)
		}
		if prefix.Bits() > 0 { // a default route is the whole family, not registered
			t.nodes = append(t.nodes, node{prefix: prefix, parent: int32(i), organisation: id}) // at most maxNetworks
		}
	}
	t.sort()
	t.nest()
	return t, nil
}

// plain returns a prefix with the host bits cleared, and IPv4 unmapped.
func plain(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, fmt.Errorf("prefix %v: invalid", p)
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// sort places parents before their children and retains one node of each range. The field parent
// temporarily holds the index of the network: a stable sort takes several times as long.
func (t *Tree) sort() {
	slices.SortFunc(t.nodes, func(a, b node) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		if c := a.prefix.Bits() - b.prefix.Bits(); c != 0 {
			return c
		}
		return int(a.parent - b.parent)
	})
	kept := t.nodes[:0:len(t.nodes)]
	for _, n := range t.nodes {
		if last := len(kept) - 1; last >= 0 && kept[last].prefix == n.prefix {
			if kept[last].organisation == 0 {
				kept[last].organisation = n.organisation
			}
			continue
		}
		kept = append(kept, n)
	}
	t.nodes = slices.Insert(kept, nodeAll, node{})
}

// nest finds parents with a stack of the open ranges.
func (t *Tree) nest() {
	open := []int32{nodeAll}
	for i := range t.nodes {
		if i == nodeAll {
			continue
		}
		n, id := &t.nodes[i], int32(i) // at most maxNetworks
		for top := open[len(open)-1]; top != nodeAll && !t.nodes[top].prefix.Contains(n.prefix.Addr()); top = open[len(open)-1] {
			t.nodes[top].end = id
			open = open[:len(open)-1]
		}
		n.parent = open[len(open)-1]
		if n.organisation == 0 {
			n.organisation = t.nodes[n.parent].organisation
		}
		open = append(open, id)
		if n.prefix.IsSingleIP() {
			t.unary[n.prefix.Addr()] = id
		} else {
			t.at.Insert(n.prefix, id)
		}
	}
	for _, id := range open {
		t.nodes[id].end = int32(len(t.nodes)) // at most maxNetworks
	}
}

// Size returns the number of ranges, without the three roots.
func (t *Tree) Size() int { return len(t.nodes) - 3 }

// Place is the location of an address in the tree.
type Place struct {
	// Subnet is the smallest range around it that is not unary. If no registered range contains the
	// address it is its /24 or /48, directly below the root of its family, which is too large for one
	// worker.
	Subnet netip.Prefix
	// Unary is the range of this address alone, the zero Prefix if none is registered.
	Unary netip.Prefix
	// Organisation of the subnet, empty if unknown.
	Organisation string
}

// Locate finds an address. It returns false for an invalid one.
func (t *Tree) Locate(addr netip.Addr) (Place, bool) {
	addr = addr.Unmap().WithZone("")
	id, ok := t.at.Lookup(addr)
	if !ok {
		return Place{}, false
	}
	var p Place
	if id, ok := t.unary[addr]; ok {
		p.Unary = t.nodes[id].prefix
	}
	n := &t.nodes[id]
	if n.parent == nodeAll {
		p.Subnet = placement.RangeOf(addr)
		return p, true
	}
	p.Subnet, p.Organisation = n.prefix, t.names[n.organisation]
	return p, true
}

// Parent returns the smallest other range around a range; the zero Prefix for 0.0.0.0/0 and ::/0,
// and false for the zero Prefix. The range need not be in the tree.
func (t *Tree) Parent(p netip.Prefix) (netip.Prefix, bool) {
	if !p.IsValid() {
		return netip.Prefix{}, false
	}
	if id, ok := t.find(p); ok {
		return t.nodes[t.nodes[id].parent].prefix, true
	}
	around, _, ok := t.at.LookupPrefixLPM(p)
	return around, ok
}

// Organisation returns that of a range, own or inherited; empty if unknown. The range need not be
// in the tree.
func (t *Tree) Organisation(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	id, ok := t.find(p)
	if !ok {
		id, _ = t.at.LookupPrefix(p)
	}
	return t.names[t.nodes[id].organisation]
}

// Contains reports whether a range is registered.
func (t *Tree) Contains(p netip.Prefix) bool {
	_, ok := t.find(p)
	return ok
}

func (t *Tree) find(p netip.Prefix) (int32, bool) {
	if p.IsSingleIP() {
		id, ok := t.unary[p.Addr()]
		return id, ok
	}
	return t.at.Get(p)
}
