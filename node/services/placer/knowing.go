package placer

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/services/subnets"
)

// cached is a record as received, or its absence. It is immutable.
type cached struct {
	subnet *ipmicra.Subnet
	index  *ipmicra.Index
	digest uint64 // of the received record; 0 if it was changed here since
	when   time.Time
}

func (c cached) weight() int {
	switch {
	case c.subnet != nil:
		return 1 + len(c.subnet.Probes)
	case c.index != nil:
		return 1 + len(c.index.Entries)
	default:
		return 1
	}
}

// with merges two records of the same key.
func (c cached) with(other cached) cached {
	out := cached{when: other.when}
	switch {
	case other.subnet != nil:
		out.subnet = &ipmicra.Subnet{Prefix: other.subnet.Prefix}
		if c.subnet != nil {
			out.subnet.Merge(c.subnet)
		}
		out.subnet.Merge(other.subnet)
	case other.index != nil:
		out.index = &ipmicra.Index{Key: other.index.Key}
		if c.index != nil {
			out.index.Entries = slices.Clone(c.index.Entries)
		}
		out.index.Merge(other.index)
	default:
		out.subnet, out.index = c.subnet, c.index
	}
	return out
}

// knowing is the state of one search: records from memory or from the ring. It implements
// [ipmicra.Knowledge].
type knowing struct {
	*delegations
	known   map[ipmicra.Key]cached
	changes ipmicra.Changes // not on the ring yet
	deaf    bool            // no more requests: unknown records count as absent
	missed  int             // unavailable records
}

func (d *delegations) know() knowing {
	return knowing{delegations: d, known: make(map[ipmicra.Key]cached)}
}

// Subnet implements [ipmicra.Knowledge].
func (k *knowing) Subnet(p netip.Prefix) (*ipmicra.Subnet, bool) {
	if !p.IsValid() {
		return nil, true // the root has no worker
	}
	c, ok := k.known[ipmicra.Key{Kind: ipmicra.KindSubnet, Prefix: p}]
	return c.subnet, ok || k.deaf
}

// Index implements [ipmicra.Knowledge].
func (k *knowing) Index(key ipmicra.Key) (*ipmicra.Index, bool) {
	c, ok := k.known[key]
	return c.index, ok || k.deaf
}

// step repeats try until it has its records, or the request limit is reached.
func (k *knowing) step(ctx context.Context, try func() (ipmicra.Step, []ipmicra.Key)) ipmicra.Step {
	for range recordRounds {
		step, need := try()
		if len(need) == 0 {
			return step
		}
		k.learnUnless(ctx, need, func(c cached) bool { return time.Since(c.when) < recordAge })
	}
	k.deaf = true
	step, _ := try()
	return step
}

func (k *knowing) learnUnless(ctx context.Context, keys []ipmicra.Key, fresh func(cached) bool) {
	var wants []subnets.Want
	var had []cached
	k.mu.Lock()
	for _, key := range keys {
		c, ok := k.cache.Get(key)
		switch {
		case ok && fresh(c):
			k.known[key] = c
		case len(wants) >= roundKeys:
			k.known[key] = cached{}
			k.missed++
		default:
			wants, had = append(wants, subnets.Want{Key: key, Held: c.digest}), append(had, c)
		}
	}
	k.mu.Unlock()
	if len(wants) == 0 {
		return
	}
	asked := time.Now()
	found := k.records.Ask(ctx, wants)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, w := range wants {
		f, ok := found[w.Key]
		c := cached{}
		if ok {
			c, ok = readFound(&f, w.Key, had[i])
		}
		if !ok {
			k.known[w.Key] = cached{}
			k.missed++
			continue
		}
		if now, ok := k.cache.Get(w.Key); ok && now.when.After(asked) { // changed here meanwhile
			c = c.with(now)
		}
		k.remember(w.Key, c)
	}
}

// readFound decodes a reply for a record; false if it is invalid.
func readFound(f *subnets.Found, key ipmicra.Key, had cached) (cached, bool) {
	c := cached{when: time.Now()}
	if f.Same {
		c.subnet, c.index, c.digest = had.subnet, had.index, had.digest
		return c, had.digest != 0
	}
	if f.Raw == nil {
		return c, true
	}
	k, changes, err := subnets.Parse(f.Raw)
	if err != nil || k != key || changes.Check(c.when) != nil {
		return c, false
	}
	c.digest = subnets.Digest(f.Raw)
	if k.Kind == ipmicra.KindSubnet {
		c.subnet = changes.Subnets[0]
	} else {
		c.index = changes.Indexes[0]
	}
	return c, true
}

// change applies changes to this search and the cache, and lets write send them to the ring.
func (k *knowing) change(c ipmicra.Changes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	put := func(key ipmicra.Key, change cached) {
		c := k.known[key]
		if now, ok := k.cache.Get(key); ok {
			c = c.with(now)
		}
		k.remember(key, c.with(change))
	}
	for _, s := range c.Subnets {
		put(s.Key(), cached{subnet: s, when: time.Now()})
	}
	for _, x := range c.Indexes {
		put(x.Key, cached{index: x, when: time.Now()})
	}
	k.changes.Subnets, k.changes.Indexes = append(k.changes.Subnets, c.Subnets...), append(k.changes.Indexes, c.Indexes...)
}

// remember is called with the lock held.
func (k *knowing) remember(key ipmicra.Key, c cached) {
	k.known[key] = c
	k.cache.Remove(key)
	k.cache.Add(key, c)
	for k.held += c.weight(); k.held > recordsKept && k.cache.Len() > 1; {
		k.cache.RemoveOldest()
	}
}

// write sends the changes to the ring, and returns when they are durable there. After an error some
// are not; they apply locally regardless.
func (k *knowing) write(ctx context.Context) error {
	if len(k.changes.Subnets)+len(k.changes.Indexes) == 0 {
		return nil
	}
	c := k.changes
	k.changes = ipmicra.Changes{}
	err := k.records.Store(ctx, c)
	if err != nil {
		k.log.Debug("subnet changes not stored on the ring", "err", err)
	}
	return err
}

// give takes a subnet from its worker and delegates it to another; with an empty to, it is
// delegated by new probes.
func (k *knowing) give(ctx context.Context, p netip.Prefix, to string, now time.Time) {
	step := k.step(ctx, func() (ipmicra.Step, []ipmicra.Key) {
		c, need := k.machine.Give(p, to, k.self, now, k)
		return ipmicra.Step{Changes: c}, need
	})
	k.change(step.Changes)
}
