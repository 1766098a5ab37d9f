package coordinates

import (
	"net/netip"
	"slices"
	"time"
)

// Assign returns the next assignment to be sent; false if there is none yet. Peers are those that
// may be given work.
func (c *Cycle) Assign(now time.Time, peers []Place) (Assignment, bool) {
	if c.batch != nil && len(peers) > 0 && c.decided(now) {
		c.assignBatch(now, peers)
	}
	if len(c.outgoing) == 0 || now.Before(c.sendAt) {
		return Assignment{}, false
	}
	c.sendAt = now.Add(c.cfg.MessageEvery)
	a := c.outgoing[0]
	c.outgoing = slices.Delete(c.outgoing, 0, 1)
	c.stats.Assignments++
	return a, true
}

// decided reports whether the batch can be assigned: its median error is below theta, or no server
// has updates left; a persistent batch, whose servers continue to be updated, must also have space
// in its outgoing queue.
func (c *Cycle) decided(now time.Time) bool {
	if len(c.batch.order) == 0 {
		return true
	}
	if c.cfg.Mode == ModePersistent {
		return len(c.outgoing) < c.cfg.Outgoing && (c.MedianError(now) < c.cfg.Theta || c.spent())
	}
	return c.MedianError(now) < c.cfg.Theta || c.exhausted()
}

// exhausted reports whether every server has had its updates, or has no URL left for more.
func (c *Cycle) exhausted() bool {
	for _, s := range c.batch.servers {
		if s.out != nil || s.updates < c.cfg.MaxUpdates && s.urls.len() > 0 {
			return false
		}
	}
	return true
}

// spent reports whether every server has had its updates.
func (c *Cycle) spent() bool {
	for _, s := range c.batch.servers {
		if s.updates < c.cfg.MaxUpdates {
			return false
		}
	}
	return true
}

func (c *Cycle) assignBatch(now time.Time, peers []Place) {
	to := make(map[string][]URL)
	var order []string
	for _, addr := range c.batch.order {
		s := c.batch.servers[addr]
		if s.out != nil && c.cfg.Mode != ModePersistent { // its estimator keeps it to the end: no other peer gets it
			s.out = nil
		}
		urls := c.remaining(s)
		if c.cfg.Mode != ModePersistent {
			c.stats.Updates = append(c.stats.Updates, s.updates)
		}
		if c.errorOf(now, addr) < c.cfg.Theta {
			c.stats.Converged++
		}
		if len(urls) == 0 {
			continue
		}
		peer := c.choose(now, addr, peers)
		if to[peer] == nil {
			order = append(order, peer)
		}
		to[peer] = append(to[peer], urls...)
	}
	for _, peer := range order {
		for part := range slices.Chunk(to[peer], c.cfg.Message) {
			c.outgoing = append(c.outgoing, Assignment{To: peer, URLs: part})
		}
	}
	c.end(now)
}

// remaining removes and returns the URLs of a server that are to be assigned now.
func (c *Cycle) remaining(s *estimated) []URL {
	if c.cfg.Mode != ModePersistent {
		return slices.Clone(s.urls.all())
	}
	var urls []URL
	for s.urls.len() > 1 && len(urls) < c.cfg.Round { // one is reserved for estimation
		urls = append(urls, s.urls.pop())
	}
	return urls
}

// end counts the batch, and drops it unless it is persistent.
func (c *Cycle) end(now time.Time) {
	c.stats.Batches++
	if c.cfg.Mode == ModePersistent {
		return
	}
	median := c.MedianError(now)
	c.stats.Medians = append(c.stats.Medians, median)
	c.stats.Took = append(c.stats.Took, now.Sub(c.batch.begun))
	if median >= c.cfg.Theta {
		c.stats.AtBound++
	}
	c.batch = nil
	c.stopped = c.cfg.Mode == ModeSingle
}

// choose returns the peer for a server.
func (c *Cycle) choose(now time.Time, addr netip.Addr, peers []Place) string {
	at, ok := c.servers.At(now, addr)
	if !ok || at.Error >= c.cfg.Theta {
		switch {
		case c.cfg.Rest == RestGeo:
			if peer := c.cfg.Geo(addr); peer != "" {
				return peer
			}
		case c.cfg.Rest == RestRandom || !ok:
			return peers[c.rnd.IntN(len(peers))].Peer
		}
	}
	if !ok {
		return peers[c.rnd.IntN(len(peers))].Peer
	}
	return nearest(&at, peers)
}

// nearest returns the peer with the lowest cost, the first among equals.
func nearest(to *Coordinate, peers []Place) string {
	best, least := "", 0.0
	for i := range peers {
		if cost := to.Cost(&peers[i].At); best == "" || cost < least {
			best, least = peers[i].Peer, cost
		}
	}
	return best
}
