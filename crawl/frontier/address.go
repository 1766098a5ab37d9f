package frontier

import (
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// fullPause is when to ask again for an address that has no room: nobody knows when one of its requests ends.
const fullPause = 50 * time.Millisecond

// Enter opens a visit of an address by a request that is in no queue, such as one that measures: it counts for the bounds of the address like any other. If it must
// not be made now, due is when to ask again. A true answer is to be followed by Leave.
func (f *Frontier[T]) Enter(now time.Time, ip netip.Addr) (ok bool, due time.Time) {
	f.sweep(now)
	ip = ip.Unmap()
	if !f.shared(ip) {
		return true, now
	}
	a := f.at(ip)
	switch {
	case a.due.After(now):
		return false, a.due
	case !f.room(a):
		return false, now.Add(fullPause)
	}
	if !a.entered {
		a.entered = true
		f.entered = append(f.entered, a)
	}
	f.begin(now, a)
	return true, now
}

// Leave closes a visit that Enter opened.
func (f *Frontier[T]) Leave(ip netip.Addr) {
	if a := f.ips[ip.Unmap()]; a != nil && a.running > 0 {
		a.running--
		f.settle(a)
	}
}

// sweep lets go of addresses that were entered once they owe nothing.
func (f *Frontier[T]) sweep(now time.Time) {
	f.entered = slices.DeleteFunc(f.entered, func(a *address[T]) bool {
		if a.running > 0 || a.due.After(now) {
			return false
		}
		a.entered = false
		f.settle(a)
		return true
	})
}

// shared says whether hosts at an address share anything: not those of loopback, which are no strangers to each other.
func (f *Frontier[T]) shared(ip netip.Addr) bool {
	return (f.cfg.PerIP >= 0 || f.cfg.IPDelay >= 0) && ip.IsValid() && !ip.IsLoopback()
}

func (f *Frontier[T]) at(ip netip.Addr) *address[T] {
	a := f.ips[ip]
	if a == nil {
		a = &address[T]{entry: entry{index: -1}, ip: ip}
		f.ips[ip] = a
	}
	return a
}

// begin counts a visit for an address.
func (f *Frontier[T]) begin(now time.Time, a *address[T]) {
	a.running++
	a.due = now.Add(max(f.cfg.IPDelay, 0))
	f.settle(a)
}

// address is what the hosts behind one IP share. It is in the heap of freed addresses while hosts wait for it and it has room; its due time is
// when the next request to it may start.
type address[T any] struct {
	entry
	ip      netip.Addr
	hosts   int
	running int
	waiting []*host[T] // in the order in which they were due
	entered bool       // it is in Frontier.entered
}

func (a *address[T]) waits() bool { return len(a.waiting) > 0 }

func (f *Frontier[T]) room(a *address[T]) bool { return f.cfg.PerIP < 0 || a.running < f.cfg.PerIP }

func (f *Frontier[T]) park(h *host[T], a *address[T]) {
	h.parked = a
	a.waiting = append(a.waiting, h)
	f.settle(a)
}

// unpark takes the first waiting host.
func (f *Frontier[T]) unpark(a *address[T]) {
	h := a.waiting[0]
	a.waiting[0] = nil
	a.waiting = a.waiting[1:]
	h.parked = nil
}

// settle puts an address into the heap or takes it out, as its state asks for, and forgets one without hosts that owes nothing.
func (f *Frontier[T]) settle(a *address[T]) {
	in := a.waits() && f.room(a)
	switch {
	case in && a.index < 0:
		f.serial++
		a.serial = f.serial
		heap.Push(&f.freed, a)
	case in:
		heap.Fix(&f.freed, a.index)
	case a.index >= 0:
		heap.Remove(&f.freed, a.index)
	}
	if a.hosts == 0 && a.running == 0 && !a.entered {
		delete(f.ips, a.ip)
	}
}

// entry is a place in a heap of due times; equal times are served in the order of arrival.
type entry struct {
	due    time.Time
	serial uint64
	index  int // -1: in no heap
}

func (e *entry) at() *entry { return e }

// queue is a heap of what is due.
type queue[E interface{ at() *entry }] []E

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
