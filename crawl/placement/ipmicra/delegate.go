package ipmicra

import (
	"net/netip"
	"time"
)

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
