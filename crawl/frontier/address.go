package frontier

import (
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// fullPause is the delay before an address at its limit is checked again: the end of its requests
// is unknown.
const fullPause = 50 * time.Millisecond

// addresses are the IPs behind hosts, and of requests that are in no queue.
type addresses[T any] struct {
	most    int           // concurrent requests to one of them; negative: no limit
	gap     time.Duration // between the starts of two; negative: none
	at      map[netip.Addr]*address[T]
	freed   queue[*address[T]] // those with waiting hosts, below their limit
	serial  uint64
	entered []*address[T] // used by recent requests of no queue, whose delay may not be over
}

// address is the state shared by the hosts behind one IP. While hosts wait and it is below its
// limit, it is in the heap of freed addresses, by when the next request to it may start.
type address[T any] struct {
	entry
	ip      netip.Addr
	hosts   int
	running int
	waiting []*host[T] // in the order in which they were due
	entered bool       // it is in addresses.entered
}

// Enter opens a visit of an address for a request that is in no queue, such as a measurement. It
// counts for the limits of the address. If not allowed now, due is when to retry; otherwise the
// caller must call Leave.
func (f *Frontier[T]) Enter(now time.Time, ip netip.Addr) (ok bool, due time.Time) {
	return f.ips.enter(now, ip.Unmap())
}

// Leave closes a visit that Enter opened.
func (f *Frontier[T]) Leave(ip netip.Addr) {
	if a := f.ips.at[ip.Unmap()]; a != nil && a.running > 0 {
		f.ips.end(a)
	}
}

func (as *addresses[T]) enter(now time.Time, ip netip.Addr) (ok bool, due time.Time) {
	as.sweep(now)
	if !as.shared(ip) {
		return true, now
	}
	a := as.open(ip)
	switch {
	case a.due.After(now):
		return false, a.due
	case !as.room(a):
		return false, now.Add(fullPause)
	}
	if !a.entered {
		a.entered = true
		as.entered = append(as.entered, a)
	}
	as.begin(now, a)
	return true, now
}

// sweep drops entered addresses once their delay is over.
func (as *addresses[T]) sweep(now time.Time) {
	as.entered = slices.DeleteFunc(as.entered, func(a *address[T]) bool {
		if a.running > 0 || a.due.After(now) {
			return false
		}
		a.entered = false
		as.reindex(a)
		return true
	})
}

// shared reports whether hosts at an address share limits: not those of loopback, which have one
// operator.
func (as *addresses[T]) shared(ip netip.Addr) bool {
	return (as.most >= 0 || as.gap >= 0) && ip.IsValid() && !ip.IsLoopback()
}

// open returns an address, and creates it if necessary.
func (as *addresses[T]) open(ip netip.Addr) *address[T] {
	a := as.at[ip]
	if a == nil {
		a = &address[T]{entry: entry{index: -1}, ip: ip}
		as.at[ip] = a
	}
	return a
}

func (as *addresses[T]) room(a *address[T]) bool { return as.most < 0 || a.running < as.most }

// takes reports whether a host at an address may be visited now, and need not wait behind others.
func (as *addresses[T]) takes(now time.Time, a *address[T]) bool {
	return len(a.waiting) == 0 && as.room(a) && !a.due.After(now)
}

// begin counts a visit for an address.
func (as *addresses[T]) begin(now time.Time, a *address[T]) {
	a.running++
	a.due = now.Add(max(as.gap, 0))
	as.reindex(a)
}

// end ends one.
func (as *addresses[T]) end(a *address[T]) {
	a.running--
	as.reindex(a)
}

// park makes a host wait for its address.
func (as *addresses[T]) park(h *host[T], a *address[T]) {
	h.parked = a
	a.waiting = append(a.waiting, h)
	as.reindex(a)
}

// unpark ends the waiting of a host, and reports whether it waited.
func (as *addresses[T]) unpark(h *host[T]) (waited bool) {
	a := h.parked
	if a == nil {
		return false
	}
	if h.parked = nil; a.waiting[0] == h {
		a.waiting[0] = nil
		a.waiting = a.waiting[1:]
		return true
	}
	i := slices.Index(a.waiting, h)
	a.waiting = slices.Delete(a.waiting, i, i+1)
	return true
}

// first returns the address that has been free for longest with a waiting host, nil if there is
// none.
func (as *addresses[T]) first(now time.Time) *address[T] {
	if len(as.freed) > 0 && !as.freed[0].due.After(now) {
		return as.freed[0]
	}
	return nil
}

// reindex adds an address to the heap or removes it according to its state, and drops one without
// hosts whose delay is over.
func (as *addresses[T]) reindex(a *address[T]) {
	in := len(a.waiting) > 0 && as.room(a)
	switch {
	case in && a.index < 0:
		as.serial++
		a.serial = as.serial
		heap.Push(&as.freed, a)
	case in:
		heap.Fix(&as.freed, a.index)
	case a.index >= 0:
		heap.Remove(&as.freed, a.index)
	}
	if a.hosts == 0 && a.running == 0 && !a.entered {
		delete(as.at, a.ip)
	}
}

// entry is an element of a heap of due times; equal times are served in the order of arrival.
type entry struct {
	due    time.Time
	serial uint64
	index  int // -1: in no heap
}

func (e *entry) at() *entry { return e }

// queue is a heap by due time.
type queue[E interface{ at() *entry }] []E

// sooner returns the due time of the first element if it is before then, or then is zero.
func (q queue[E]) sooner(then time.Time) time.Time {
	if len(q) > 0 && (then.IsZero() || q[0].at().due.Before(then)) {
		return q[0].at().due
	}
	return then
}

// Len implements heap.Interface.
func (q queue[E]) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue[E]) Less(i, j int) bool {
	a, b := q[i].at(), q[j].at()
	if a.due.Equal(b.due) {
		return a.serial < b.serial
	}
	return a.due.Before(b.due)
}

// Swap implements heap.Interface.
func (q queue[E]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at().index, q[j].at().index = i, j
}

// Push implements heap.Interface.
func (q *queue[E]) Push(x any) {
	e := x.(E)
	e.at().index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue[E]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	var zero E
	(*q)[last] = zero
	*q = (*q)[:last]
	e.at().index = -1
	return e
}

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
