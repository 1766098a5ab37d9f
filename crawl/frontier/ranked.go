package frontier

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// ranked is a host that may be visited.
type ranked[T any] struct {
	host  *host[T]
	back  bool // it stands back while others wait
	score uint64
}

// Ranked returns up to n hosts that may be visited now by the score of their next item, the
// smallest first; of equal ones the host that has been due for longest. Hosts that stand back come
// last, see Fetchers. Due is when to call again, as with Next. It examines every host queue, unlike
// Next: it is for a peer whose bandwidth limit admits few requests.
func (f *Frontier[T]) Ranked(now time.Time, n int, score func(item T) uint64) (names []string, due time.Time) {
	var best []ranked[T]
	add := func(h *host[T]) {
		if h.head == len(h.items) {
			return // all its items were taken while it waited, as when it is given back
		}
		if h.kind() != prompt && f.held.full() {
			return // the end of a visit changes that
		}
		if f.rests(h.group) {
			return
		}
		r := ranked[T]{h, f.standsBack(h), score(h.items[h.head])}
		i, _ := slices.BinarySearchFunc(best, r, compareRanked[T])
		if i < n {
			best = slices.Insert(best, i, r)
			best = best[:min(len(best), n)]
		}
	}
	later := func(at time.Time) {
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	f.lines.rested(now)
	due = f.lines.resting.sooner(due)
	look := func(h *host[T]) {
		a := f.ips.at[h.addr]
		switch {
		case h.due.After(now):
			later(h.due)
		case a == nil || f.ips.room(a) && !a.due.After(now):
			add(h)
		case f.ips.room(a):
			later(a.due)
		}
	}
	for _, h := range f.due {
		look(h)
	}
	for _, h := range f.hosts {
		if h.line != nil {
			look(h)
		}
	}
	for _, a := range f.ips.freed {
		if a.due.After(now) {
			later(a.due)
			continue
		}
		for _, h := range a.waiting {
			add(h)
		}
	}
	for _, r := range best {
		names = append(names, r.host.name)
	}
	return names, due
}

func compareRanked[T any](a, b ranked[T]) int {
	if a.back != b.back {
		if a.back {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.score, b.score), a.host.due.Compare(b.host.due), cmp.Compare(a.host.serial, b.host.serial))
}

// Peek returns the next item of a host's queue.
func (f *Frontier[T]) Peek(name string) (item T, ok bool) {
	h := f.hosts[name]
	if h == nil || h.head == len(h.items) {
		return item, false
	}
	return h.items[h.head], true
}

// Visit opens the visit of a host that Ranked has returned; false if it may not be visited.
func (f *Frontier[T]) Visit(now time.Time, name string) bool { return f.Beside(now, name, "") }

// Beside is Visit on behalf of another host, whose visit is open: if both are of one group, that
// visit is the group's.
func (f *Frontier[T]) Beside(now time.Time, name, other string) bool {
	h := f.hosts[name]
	f.lines.rested(now)
	switch {
	case h == nil || h.visited || h.due.After(now) || f.rests(h.group) && !f.sharesGroup(h.group, other):
		return false
	case h.index >= 0:
		heap.Remove(&f.due, h.index)
	case h.line != nil:
		f.lines.remove(h)
	case !f.ips.unpark(h):
		return false
	}
	f.visit(now, h)
	return true
}
