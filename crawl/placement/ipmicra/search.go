package ipmicra

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// DefaultThreshold is the probing threshold recommended by the paper (2.2).
const DefaultThreshold = 50 * time.Millisecond

// believed is how long a probe of a subnet is valid for its sites: routes change within days.
const believed = 24 * time.Hour

// Machine searches workers for subnets. It has no state: all results are in the records.
type Machine struct {
	Tree *Tree // of all registered ranges
	// Before is the previous tree, nil if there was none. A subnet that was never delegated inherits
	// the worker and the measurements of its addresses, unprobed.
	Before *Tree
	// Threshold is T, the largest probe that ends a search. A smaller one finds nearer workers with
	// more probes.
	Threshold time.Duration
	// ProbeSole probes the only worker of an organization like any other before it gets another range
	// of it. The paper's algorithm does not: organizations had one location then. For those with data
	// centers all over the world, the first worker would get all of them.
	ProbeSole bool
}

// Step is the state of a search: one of Need, Probe and Worker is set.
type Step struct {
	// Need are keys of records that the search requires.
	Need []Key
	// Probe is the peer to measure next.
	Probe string
	// Worker is the chosen worker.
	Worker string
	// Local reports that Worker is this owner's own choice and no delegation, and need not be
	// published: no subnet is known, or it is delegated to a peer that is no candidate here.
	Local bool
	// Unsure reports that the site was too small for a search, see [placement.Choice].
	Unsure bool
	// Why is a description of the reason.
	Why string
	// Changes are the records to change once Worker is final.
	Changes Changes
}

// Next advances a search by one step (papers 2.3, 2.5). It is called again with the requested
// records and measurements until it returns a worker; a worker probes a target at most once, so
// measurements in the view or the record are not repeated. The view must have candidates.
//
// The paper leaves open how to continue when none of an organization's workers is below the
// threshold; here the search continues. Workers of one level of the tree are probed in the order of
// common prefix bits with the subnet. After the whole tree the candidates without a range in it
// follow, and then the smallest probe wins.
func (m *Machine) Next(v *placement.View, k Knowledge) Step {
	s := m.search(v, k)
	at, ok := m.Tree.Locate(v.Site)
	if !ok {
		if v.Tiny {
			return s.unprobed()
		}
		step := s.rest([]byte(v.Host))
		step.Local = true
		return step
	}
	s.at = at
	record := s.subnet(at.Subnet)
	before := s.before(record)
	if s.prefetch(); len(s.need) > 0 {
		return Step{Need: s.need}
	}
	if record != nil {
		s.believe(record)
		if step, ok := s.delegated(record); ok {
			return step
		}
	}
	if before != nil {
		s.believe(before)
		if _, ok := s.able[before.Worker]; ok {
			step := Step{Worker: before.Worker, Why: fmt.Sprintf("worker of %v, the site's subnet in the previous ranges", before.Prefix)}
			step.Changes = m.delegate(k, at, step.Worker, placement.Keeper(v.Candidates), v.Now)
			probes := maps.Clone(before.Probes)
			maps.DeleteFunc(probes, func(_ string, p Probe) bool { return p.At.Before(before.Since) })
			step.Changes.add(Changes{Subnets: []*Subnet{{Prefix: at.Subnet, Probes: probes}}})
			return step
		}
	}
	if v.Tiny {
		return s.unprobed()
	}
	step := s.walk()
	step.Local = step.Local || record != nil && record.Worker != ""
	switch {
	case step.Worker == "":
	case step.Local:
		step.Changes = s.probes()
	default:
		step.Changes = m.delegate(k, at, step.Worker, placement.Keeper(v.Candidates), v.Now)
		step.Changes.add(s.probes())
	}
	return step
}

// probes returns the view's measurements, for the record of the subnet.
func (s *search) probes() Changes {
	record := &Subnet{Prefix: s.at.Subnet, Probes: make(map[string]Probe)}
	for peer, found := range s.v.Measured {
		if found.Err == "" && len(peer) <= MaxPeer {
			rtt := min(max(found.RTT, 0), maxRTT).Truncate(time.Microsecond)
			record.Probes[peer] = Probe{RTT: rtt, At: moment(s.v.Now)}
		}
	}
	return Changes{Subnets: []*Subnet{record}}
}

// unprobed places a host that is not worth a probe (design, section 4): with the previous worker of
// its range, or with its owner.
func (s *search) unprobed() Step {
	if _, ok := s.able[s.v.Known]; ok {
		return Step{Worker: s.v.Known, Local: true, Unsure: true, Why: "few URLs: the known worker of the address range"}
	}
	return Step{Worker: placement.Keeper(s.v.Able()), Local: true, Unsure: true, Why: "few URLs: not worth probing, the owner keeps the host"}
}

// search is one call of Next.
type search struct {
	*Machine
	v        *placement.View
	k        Knowledge
	at       Place
	able     map[string]bool // candidates; false once the search has visited them
	left     int             // not visited yet
	measured map[string]placement.Measurement
	need     []Key
}

func (m *Machine) search(v *placement.View, k Knowledge) search {
	s := search{Machine: m, v: v, k: k, able: make(map[string]bool), measured: maps.Clone(v.Measured)}
	if s.measured == nil {
		s.measured = make(map[string]placement.Measurement)
	}
	for _, c := range v.Able() {
		s.able[c.Peer] = true
	}
	s.left = len(s.able)
	return s
}

// believe uses the record's probes by others as measurements, except those before Since.
func (s *search) believe(record *Subnet) {
	for peer, p := range record.Probes {
		if _, ok := s.measured[peer]; ok || p.At.Before(record.Since) || s.v.Now.Sub(p.At) > believed {
			continue
		}
		s.measured[peer] = placement.Measurement{RTT: p.RTT}
	}
}

// before returns the record of the site's subnet in the previous tree, if its own was never
// delegated (2.1).
func (s *search) before(own *Subnet) *Subnet {
	if s.Before == nil || own != nil && own.Epoch != (Epoch{}) {
		return nil
	}
	if at, ok := s.Before.Locate(s.v.Site); ok && at.Subnet != s.at.Subnet {
		return s.subnet(at.Subnet)
	}
	return nil
}

// delegated returns a worker if no probe is needed: the subnet has a worker, or the host is not
// worth a probe.
func (s *search) delegated(record *Subnet) (Step, bool) {
	if record.Worker == "" {
		return Step{}, false
	}
	if _, ok := s.able[record.Worker]; ok {
		return Step{Worker: record.Worker, Why: fmt.Sprintf("%v is delegated to it", record.Prefix)}, true
	}
	if _, ok := s.able[s.v.Known]; ok {
		return Step{Worker: s.v.Known, Local: true, Why: fmt.Sprintf("%v is delegated to a peer that is not a candidate; previous local choice", record.Prefix)}, true
	}
	return Step{}, false
}

// walk visits workers in the paper's order until one is below the threshold.
func (s *search) walk() Step {
	if only := s.only(); only != "" && !s.ProbeSole {
		return Step{Worker: only, Why: fmt.Sprintf("the only worker of %s", s.at.Organisation)}
	}
	for worker, from := range s.workers() {
		if step, ok := s.meet(worker, from); ok {
			return step
		}
	}
	if len(s.need) > 0 {
		return Step{Need: s.need}
	}
	return s.rest(s.at.Subnet.Addr().AsSlice())
}

// only returns the worker of all other ranges of the organization if there is just one, which is
// not probed (2.3).
func (s *search) only() string {
	if s.at.Organisation == "" {
		return ""
	}
	only := ""
	for _, e := range s.index(Key{Kind: KindOrganisation, Organisation: s.at.Organisation}) {
		switch {
		case e.Worker == "" || e.Prefix == s.at.Subnet:
		case only == "":
			only = e.Worker
		case only != e.Worker:
			return ""
		}
	}
	if _, ok := s.able[only]; !ok {
		return ""
	}
	return only
}

// workers iterates in the order of the paper, each with its range: those of the organization, those
// below the subnet, then level by level outwards. It ends early when a record is needed.
func (s *search) workers() iter.Seq2[string, netip.Prefix] {
	return func(yield func(string, netip.Prefix) bool) {
		if s.at.Organisation != "" {
			if !s.level(s.index(Key{Kind: KindOrganisation, Organisation: s.at.Organisation}), yield) {
				return
			}
		}
		if !s.below(s.at.Subnet, yield) {
			return
		}
		for a, ok := s.Tree.Parent(s.at.Subnet); ok; a, ok = s.Tree.Parent(a) {
			if record := s.subnet(a); record != nil && record.Worker != "" && !yield(record.Worker, a) {
				return
			}
			if !s.below(a, yield) {
				return
			}
		}
	}
}

// below iterates over the delegated ranges below one, nearest level first. False: stop.
func (s *search) below(top netip.Prefix, yield func(string, netip.Prefix) bool) bool {
	level := s.index(Key{Kind: KindChildren, Prefix: top})
	for len(level) > 0 {
		if len(s.need) > 0 || !s.level(level, yield) {
			return false
		}
		var next []Entry
		for _, e := range level {
			if e.Below {
				next = append(next, s.index(Key{Kind: KindChildren, Prefix: e.Prefix})...)
			}
		}
		level = next
	}
	return len(s.need) == 0
}

// level iterates over the workers of a level's ranges that the search has not visited. The ranges
// that share most bits with the subnet come first.
func (s *search) level(entries []Entry, yield func(string, netip.Prefix) bool) bool {
	if s.left == 0 {
		return false // no candidate is left
	}
	type ranked struct {
		Entry
		shared int
	}
	order := func(a, b ranked) int { return cmp.Or(cmp.Compare(b.shared, a.shared), a.Prefix.Compare(b.Prefix)) }
	nearest := make(map[string]ranked, s.left)
	for _, e := range entries {
		if !s.able[e.Worker] || e.Prefix == s.at.Subnet {
			continue
		}
		r := ranked{e, common(s.at.Subnet.Addr(), e.Prefix.Addr())}
		if old, ok := nearest[e.Worker]; !ok || order(r, old) < 0 {
			nearest[e.Worker] = r
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(nearest), order) {
		if !yield(r.Worker, r.Prefix) {
			return false
		}
	}
	return true
}

// common returns the number of leading bits that two addresses share; none for those of different
// families.
func common(a, b netip.Addr) int {
	if a.BitLen() != b.BitLen() {
		return 0
	}
	if a.Is4() {
		x, y := a.As4(), b.As4()
		return bits.LeadingZeros32(binary.BigEndian.Uint32(x[:]) ^ binary.BigEndian.Uint32(y[:]))
	}
	x, y := a.As16(), b.As16()
	if n := bits.LeadingZeros64(binary.BigEndian.Uint64(x[:]) ^ binary.BigEndian.Uint64(y[:])); n < 64 {
		return n
	}
	return 64 + bits.LeadingZeros64(binary.BigEndian.Uint64(x[8:])^binary.BigEndian.Uint64(y[8:]))
}

// named returns a range for messages; the zero one is that of a worker without a range.
func named(p netip.Prefix) string {
	if !p.IsValid() {
		return "other subnets"
	}
	return p.String()
}

// meet visits one worker. The search ends with it if it must be probed, or is below the threshold.
func (s *search) meet(worker string, from netip.Prefix) (Step, bool) {
	if !s.able[worker] {
		return Step{}, false
	}
	s.able[worker] = false
	s.left--
	found, ok := s.measured[worker]
	switch {
	case !ok:
		return Step{Probe: worker}, true
	case found.Err == "" && found.RTT < s.Threshold:
		return Step{Worker: worker, Why: fmt.Sprintf("%v to the site, below %v; probed as worker of %s", found.RTT, s.Threshold, named(from))}, true
	}
	return Step{}, false
}

// rest is the exhaustive end of a search: candidates that are not in the tree, and then the
// smallest probe. Their order is drawn from the seed, so that none is always the first.
func (s *search) rest(seed []byte) Step {
	type drawn struct {
		peer string
		lot  uint64
	}
	var order []drawn
	for _, c := range s.v.Candidates {
		if s.able[c.Peer] {
			h := fnv.New64a()
			h.Write([]byte(c.Peer))
			h.Write(seed)
			order = append(order, drawn{c.Peer, h.Sum64()})
		}
	}
	slices.SortStableFunc(order, func(a, b drawn) int { return cmp.Compare(a.lot, b.lot) })
	for _, d := range order {
		if step, ok := s.meet(d.peer, netip.Prefix{}); ok {
			return step
		}
	}
	best, least := "", time.Duration(-1)
	for _, c := range s.v.Candidates {
		found, ok := s.measured[c.Peer]
		if _, able := s.able[c.Peer]; able && ok && found.Err == "" && (least < 0 || found.RTT < least) {
			best, least = c.Peer, found.RTT
		}
	}
	if best == "" {
		return Step{Worker: placement.Keeper(s.v.Able()), Local: true, Why: "no candidate reached the site: the owner keeps the host"}
	}
	return Step{Worker: best, Why: fmt.Sprintf("%v to the site, the smallest; none is below %v", least, s.Threshold)}
}

// prefetch requests all records on the way to the root at once, so that remote ones cost one round
// trip and not one for each level.
func (s *search) prefetch() {
	if s.at.Organisation != "" {
		s.index(Key{Kind: KindOrganisation, Organisation: s.at.Organisation})
	}
	if s.at.Unary.IsValid() {
		s.subnet(s.at.Unary)
	}
	s.index(Key{Kind: KindChildren, Prefix: s.at.Subnet})
	for a, ok := s.Tree.Parent(s.at.Subnet); ok; a, ok = s.Tree.Parent(a) {
		if a.IsValid() {
			s.subnet(a)
		}
		s.index(Key{Kind: KindChildren, Prefix: a})
	}
}

func (s *search) subnet(p netip.Prefix) *Subnet {
	record, ok := s.k.Subnet(p)
	if !ok {
		s.need = append(s.need, Key{Kind: KindSubnet, Prefix: p})
	}
	return record
}

func (s *search) index(k Key) []Entry {
	x, ok := s.k.Index(k)
	if !ok {
		s.need = append(s.need, k)
	}
	if x == nil {
		return nil
	}
	return x.Entries
}
