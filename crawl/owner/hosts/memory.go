package hosts

import (
	"github.com/apoidea/apoidea/crawl/domain"
)

// Lru is the order in which hosts were last touched.
type Lru struct {
	Oldest, newest *Host
	n              int
}

// touch makes a host the newest of the list, whichever it was in.
func (l *Lru) touch(h *Host) {
	if l.newest == h {
		return
	}
	h.in.remove(h)
	l.n++
	h.in, h.old = l, l.newest
	if l.newest != nil {
		l.newest.Newer = h
	} else {
		l.Oldest = h
	}
	l.newest = h
}

// remove takes a host out of the list that it is in, if it is in one.
func (l *Lru) remove(h *Host) {
	if l == nil {
		return
	}
	l.n--
	if h.old != nil {
		h.old.Newer = h.Newer
	} else {
		l.Oldest = h.Newer
	}
	if h.Newer != nil {
		h.Newer.old = h.old
	} else {
		l.newest = h.old
	}
	h.old, h.Newer, h.in = nil, nil, nil
}

// queue are hosts that are to be evaluated when there is room to place one: so those that wait cost
// nothing while they do. The registrable domains have turns, and of each its hosts first come first
// served: so a farm of hosts takes no more of the room than one site does.
type queue struct {
	lines map[string]*line
	turns fifo[*line] // in the order of their turns
	n     int
}

// line are the hosts of one registrable domain that wait.
type line struct {
	domain string
	hosts  fifo[*Host]
}

func (q *queue) len() int { return q.n }

// Add puts a host at the end of its domain's line unless it is in the queue.
func (q *queue) Add(h *Host) {
	if h.queued {
		return
	}
	h.queued = true
	q.n++
	name := domain.Of(h.Rec.Name)
	l := q.lines[name]
	if l == nil {
		if q.lines == nil {
			q.lines = make(map[string]*line)
		}
		l = &line{domain: name}
		q.lines[name] = l
		q.turns.add(l)
	}
	l.hosts.add(h)
}

// Take takes the first host off of the domain whose turn it is. It may be one that is not in memory
// any more.
func (q *queue) Take() *Host {
	l := q.turns.take()
	h := l.hosts.take()
	if l.hosts.len() > 0 {
		q.turns.add(l)
	} else {
		delete(q.lines, l.domain)
	}
	q.n--
	h.queued = false
	return h
}

// fifo is a list of which the first is taken off.
type fifo[T any] struct {
	list []T
	head int
}

func (f *fifo[T]) len() int { return len(f.list) - f.head }

func (f *fifo[T]) add(v T) { f.list = append(f.list, v) }

func (f *fifo[T]) take() (v T) {
	v, f.list[f.head] = f.list[f.head], v
	f.head++
	switch {
	case f.head == len(f.list):
		f.list, f.head = nil, 0
	case f.head > 1024 && f.head > len(f.list)/2:
		f.list, f.head = append([]T(nil), f.list[f.head:]...), 0
	}
	return v
}

// wakes is a heap of hosts by the time at which something is to be done for them.
type wakes struct{ list []*Host }

func (w *wakes) set(h *Host, at int64) {
	switch {
	case at == Never:
		w.remove(h)
		return
	case h.heap < 0:
		h.heap = len(w.list)
		w.list = append(w.list, h)
	}
	h.wakeAt = at
	w.fix(h.heap)
}

func (w *wakes) remove(h *Host) {
	i := h.heap
	if i < 0 {
		return
	}
	last := len(w.list) - 1
	w.swap(i, last)
	w.list[last] = nil
	w.list = w.list[:last]
	h.heap, h.wakeAt = -1, Never
	if i < last {
		w.fix(i)
	}
}

func (w *wakes) First() int64 {
	if len(w.list) == 0 {
		return Never
	}
	return w.list[0].wakeAt
}

// Due takes the first host off whose time has come.
func (w *wakes) Due(now int64) *Host {
	if w.First() > now {
		return nil
	}
	h := w.list[0]
	w.remove(h)
	return h
}

func (w *wakes) swap(i, j int) {
	w.list[i], w.list[j] = w.list[j], w.list[i]
	w.list[i].heap, w.list[j].heap = i, j
}

func (w *wakes) fix(i int) {
	for i > 0 && w.list[i].wakeAt < w.list[(i-1)/2].wakeAt {
		w.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(w.list) && w.list[child+1].wakeAt < w.list[child].wakeAt {
			child++
		}
		if child >= len(w.list) || w.list[i].wakeAt <= w.list[child].wakeAt {
			return
		}
		w.swap(i, child)
		i = child
	}
}
