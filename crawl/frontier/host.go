package frontier

import (
	"container/heap"
	"net/netip"
	"time"
)

// CrawlDelay sets the Crawl-delay of a host's robots.txt, up to the limit. It applies from the end
// of the next request, or of the one under way.
func (f *Frontier[T]) CrawlDelay(name string, d time.Duration) {
	f.open(name).crawl = min(max(d, 0), f.cfg.MaxCrawlDelay)
}

// Slow multiplies the delay of a host by times, up to MaxAdaptive; 1 or less is the normal delay.
// It applies from the end of the next request, or of the one under way.
func (f *Frontier[T]) Slow(name string, times float64) { f.open(name).slow = times }

// NotBefore defers a host until then: for the politeness delay of a previous worker, or a backoff.
// It never makes a host due earlier.
func (f *Frontier[T]) NotBefore(name string, at time.Time) {
	h := f.open(name)
	if !at.After(h.due) {
		return
	}
	h.due = at
	if h.index >= 0 {
		heap.Fix(&f.due, h.index)
		return
	}
	if h.line != nil {
		f.lines.remove(h)
		f.place(h)
		return
	}
	if a := h.parked; f.ips.unpark(h) {
		f.ips.reindex(a)
		f.place(h)
	}
}

// SetAddr sets the address of a host, from its next visit on. Hosts at an invalid address or at
// loopback, which have one operator, share no limits.
func (f *Frontier[T]) SetAddr(name string, ip netip.Addr) {
	h := f.open(name)
	ip = ip.Unmap()
	if !f.ips.shared(ip) || ip == h.addr {
		return
	}
	f.lose(h)
	h.addr = ip
	f.ips.open(ip).hosts++
	f.place(h)
}

// lose detaches a host from its address.
func (f *Frontier[T]) lose(h *host[T]) {
	a := f.ips.at[h.addr]
	if a == nil {
		return
	}
	f.ips.unpark(h)
	h.addr = netip.Addr{}
	a.hosts--
	f.ips.reindex(a)
}

// Remove drops a host and returns its waiting items. If it is being visited, it can be added again
// but has no second visit before the end of that one.
func (f *Frontier[T]) Remove(name string) []T {
	h := f.hosts[name]
	if h == nil {
		return nil
	}
	rest := h.items[h.head:]
	f.items -= len(rest)
	h.items, h.head = nil, 0
	if h.index >= 0 {
		heap.Remove(&f.due, h.index)
	}
	f.lines.remove(h)
	if h.visited {
		h.gone = true
		return rest
	}
	f.forget(h)
	return rest
}

func (f *Frontier[T]) forget(h *host[T]) {
	f.lose(h)
	f.held.count(h.kind(), -1)
	f.remember(h)
	delete(f.hosts, h.name)
}

// Len is the number of items in the queue of a host.
func (f *Frontier[T]) Len(name string) int {
	if h := f.hosts[name]; h != nil {
		return len(h.items) - h.head
	}
	return 0
}

// Items is the number of items in all queues, Hosts that of the queues.
func (f *Frontier[T]) Items() int { return f.items }

// Hosts is the number of host queues.
func (f *Frontier[T]) Hosts() int { return len(f.hosts) }

// Visited reports whether a visit of the host is open.
func (f *Frontier[T]) Visited(name string) bool {
	h := f.hosts[name]
	return h != nil && h.visited
}

// Owed returns the remaining delay of a host, for the next worker.
func (f *Frontier[T]) Owed(now time.Time, name string) time.Duration {
	if h := f.hosts[name]; h != nil {
		return max(0, h.due.Sub(now))
	}
	return 0
}

// Pace returns the approximate duration of one request to the host with the delay after it, from
// which the size of its window is computed.
func (f *Frontier[T]) Pace(name string) time.Duration {
	if h := f.hosts[name]; h != nil {
		return f.delay(h) + h.took
	}
	return f.cfg.Delay
}

func (h *host[T]) setDue(at time.Time) {
	if at.After(h.due) {
		h.due = at
	}
}
