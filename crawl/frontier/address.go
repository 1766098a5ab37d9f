package frontier

import (
	"container/heap"
	"net/netip"
	"time"
)

// address is what the hosts behind one IP share. It is in the heap of freed addresses while hosts wait for it and it has room; its due time is
// when the next request to it may start.
type address[T any] struct {
	entry
	ip      netip.Addr
	hosts   int
	running int
	waiting []*host[T] // in the order in which they were due
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

// settle puts an address into the heap or takes it out, as its state asks for, and forgets one without hosts.
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
	if a.hosts == 0 && a.running == 0 {
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
