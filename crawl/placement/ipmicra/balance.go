package ipmicra

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Room is a peer with free capacity. Its unit is that of [Load]; the paper's is bytes of assigned
// pages to check a day.
type Room struct {
	Peer string  // its ID
	Free float64 // free capacity
}

// Load is the cost of a subnet for its worker.
type Load struct {
	Prefix netip.Prefix // of the subnet
	Load   float64      // its cost
}

// Move is the assignment of a subnet to another worker.
type Move struct {
	Prefix   netip.Prefix // of the subnet
	From, To string       // IDs of peers
	Load     float64      // cost of the subnet
}

// Relieve moves subnets of a total cost of at least excess from an overloaded worker, each to the
// next best crawler with enough capacity (papers 2.4). Those go first whose probe results vary
// least between crawlers, as the move costs least. A subnet without a suitable crawler stays. For a
// subnet with fewer than two probes, missing ones are predicted from the crawler's probes around
// it.
func (s *Strategy) Relieve(now time.Time, worker string, excess float64, loads []Load, rooms []Room) []Move {
	predict := s.predictions()
	free := make(map[string]float64, len(rooms))
	for _, r := range rooms {
		if r.Peer != worker {
			free[r.Peer] = r.Free
		}
	}
	crawlers := append(slices.Sorted(maps.Keys(free)), worker)
	held := s.held(worker, loads, crawlers, predict)
	var moves []Move
	for _, h := range held {
		if excess <= 0 {
			break
		}
		to := ""
		for peer, rtt := range h.times {
			if room, ok := free[peer]; ok && room >= h.load && (to == "" || cmp.Or(cmp.Compare(rtt, h.times[to]), cmp.Compare(peer, to)) < 0) {
				to = peer
			}
		}
		if to == "" {
			continue
		}
		free[to] -= h.load
		excess -= h.load
		moves = append(moves, Move{h.prefix, worker, to, h.load})
		var c Changes
		s.machine.assign(&c, s.memory, h.prefix, to, worker, now)
		s.memory.Merge(c)
	}
	return moves
}

// holding is a subnet of the overloaded worker.
type holding struct {
	prefix   netip.Prefix
	load     float64
	times    map[string]float64 // ms, by crawler
	variance float64
}

// held returns the worker's subnets with a cost, those of the least variance first.
func (s *Strategy) held(worker string, loads []Load, crawlers []string, predict *predictor) []holding {
	var held []holding
	for _, l := range loads {
		record := s.memory.subnets[l.Prefix]
		if record == nil || record.Worker != worker || l.Load <= 0 {
			continue
		}
		h := holding{prefix: l.Prefix, load: l.Load, times: make(map[string]float64)}
		for _, peer := range crawlers {
			if p, ok := record.Probes[peer]; ok {
				h.times[peer] = milliseconds(p.RTT)
			}
		}
		if len(h.times) < 2 {
			for _, peer := range crawlers {
				if _, ok := h.times[peer]; ok {
					continue
				}
				if ms, ok := predict.at(l.Prefix, peer); ok {
					h.times[peer] = ms
				}
			}
		}
		h.variance = variance(slices.Sorted(maps.Values(h.times)))
		held = append(held, h)
	}
	slices.SortFunc(held, func(a, b holding) int { return cmp.Or(cmp.Compare(a.variance, b.variance), a.prefix.Compare(b.prefix)) })
	return held
}

// variance returns that of values in a fixed order, since a sum of floats depends on it.
func variance(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return squares / n
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// predictor has the mean of a crawler's probes below each range.
type predictor struct {
	tree  *Tree
	means map[crawlerAt]*mean
}

type crawlerAt struct {
	prefix netip.Prefix
	peer   string
}

type mean struct{ sum, n float64 }

// predictions aggregates all probes along the tree.
func (s *Strategy) predictions() *predictor {
	p := &predictor{s.machine.Tree, make(map[crawlerAt]*mean)}
	for record := range s.memory.Subnets() {
		for peer, probe := range record.Probes {
			for at, ok := record.Prefix, true; ok; at, ok = p.tree.Parent(at) {
				key := crawlerAt{at, peer}
				if p.means[key] == nil {
					p.means[key] = new(mean)
				}
				p.means[key].sum += milliseconds(probe.RTT)
				p.means[key].n++
			}
		}
	}
	return p
}

// at predicts a crawler's probe of a range: the mean of its measurements within the smallest
// enclosing range that has any. It returns false without any.
func (p *predictor) at(prefix netip.Prefix, peer string) (float64, bool) {
	for at, ok := prefix, true; ok; at, ok = p.tree.Parent(at) {
		if m := p.means[crawlerAt{at, peer}]; m != nil {
			return m.sum / m.n, true
		}
	}
	return 0, false
}

// add merges changes; each key has one record.
func (c *Changes) add(other Changes) {
	for _, s := range other.Subnets {
		old := c.subnet(s.Prefix)
		old.Merge(s)
	}
	for _, x := range other.Indexes {
		c.index(x.Key).Merge(x)
	}
}

func (c *Changes) subnet(p netip.Prefix) *Subnet {
	for _, s := range c.Subnets {
		if s.Prefix == p {
			return s
		}
	}
	s := &Subnet{Prefix: p}
	c.Subnets = append(c.Subnets, s)
	return s
}

func (c *Changes) index(k Key) *Index {
	for _, x := range c.Indexes {
		if x.Key == k {
			return x
		}
	}
	x := &Index{Key: k}
	c.Indexes = append(c.Indexes, x)
	return x
}

// delegate assigns a subnet to a worker, and the unary range of the site with it (2.3). The empty
// worker revokes it.
func (m *Machine) delegate(k Knowledge, at Place, worker, by string, now time.Time) Changes {
	var c Changes
	m.assign(&c, k, at.Subnet, worker, by, now)
	if at.Unary.IsValid() {
		m.assign(&c, k, at.Unary, worker, by, now)
	}
	return c
}

// assign changes the record of one range and the indexes that contain it.
func (m *Machine) assign(c *Changes, k Knowledge, p netip.Prefix, worker, by string, now time.Time) {
	next := &Subnet{Prefix: p, Epoch: Epoch{Counter: 1, Peer: by}, Worker: worker, Organisation: m.Tree.Organisation(p)}
	if old, _ := k.Subnet(p); old != nil {
		next.Epoch.Counter, next.Since = old.Epoch.Counter+1, old.Since
	}
	if worker == "" {
		next.Since = moment(now)
	}
	c.subnet(p).Merge(next)
	entry := Entry{Prefix: p, Epoch: next.Epoch, Worker: worker}
	if next.Organisation != "" {
		one := Index{Entries: []Entry{entry}}
		c.index(Key{Kind: KindOrganisation, Organisation: next.Organisation}).Merge(&one)
	}
	for a, ok := m.Tree.Parent(p); ok; a, ok = m.Tree.Parent(a) {
		key := Key{Kind: KindChildren, Prefix: a}
		if !listed(k, key, entry) {
			one := Index{Entries: []Entry{entry}}
			c.index(key).Merge(&one)
		}
		entry = Entry{Prefix: a, Below: true}
	}
}

// listed reports whether an index already has the content of an entry.
func listed(k Knowledge, key Key, e Entry) bool {
	x, _ := k.Index(key)
	if x == nil {
		return false
	}
	old, ok := x.Find(e.Prefix)
	return ok && e.Epoch == Epoch{} && (old.Below || !e.Below)
}

// Seed delegates the subnet of a peer's own address to it (2.1), unless it is delegated already. If
// records are missing it returns their keys and changes nothing.
func (m *Machine) Seed(peer string, addr netip.Addr, now time.Time, k Knowledge) (Changes, []Key) {
	at, ok := m.Tree.Locate(addr)
	if !ok || peer == "" {
		return Changes{}, nil
	}
	s := search{Machine: m, k: k, at: at}
	record := s.subnet(at.Subnet)
	if s.prefetch(); len(s.need) > 0 || record != nil && record.Worker != "" {
		return Changes{}, s.need
	}
	return m.delegate(k, at, peer, peer, now), nil
}

// Give moves a subnet from its worker to another (2.4); to none, the empty name, so that its next
// site has it delegated by new probes. If records are missing it returns their keys and changes
// nothing. Its unary ranges are unchanged: they are updated when their sites are placed.
func (m *Machine) Give(p netip.Prefix, to, by string, now time.Time, k Knowledge) (Changes, []Key) {
	s := search{Machine: m, k: k, at: Place{Subnet: p, Organisation: m.Tree.Organisation(p)}}
	record := s.subnet(p)
	if s.prefetch(); len(s.need) > 0 || record == nil || record.Worker == "" {
		return Changes{}, s.need
	}
	return m.delegate(k, s.at, to, by, now), nil
}

// moment returns a time in the resolution of records.
func moment(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }
