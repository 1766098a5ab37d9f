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
