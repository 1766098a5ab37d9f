package hosts

import (
	"container/heap"

	"github.com/apoidea/apoidea/crawl/domain"
)

// Lru lists hosts by last use.
type Lru struct {
	Oldest, newest *Host
	n              int
}

// touch makes a host the most recent of the list, and removes it from any other.
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

// remove takes a host out of its list, if any.
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

// queue holds hosts that wait for a search slot, at no cost while they wait. Registrable domains
// are served in turn, and the hosts of each in order of arrival, so a host farm gets no more slots
// than one site. The rank of a host's URLs takes precedence, see [job.Spec.Rank].
type queue struct {
	lines map[string]*line
	turns inTurn[*line]
	turn  uint64 // last one assigned
	n     int
}

// line holds the waiting hosts of one registrable domain.
type line struct {
	domain string
	hosts  inTurn[*Host]
	turn   uint64
	index  int // in turns
}

// waiting is the entry of a host in the queue.
type waiting struct {
	queued bool
	rank   uint32
	turn   uint64
	index  int // in its line
}

func (h *Host) before(o *Host) bool {
	return h.wait.rank < o.wait.rank || h.wait.rank == o.wait.rank && h.wait.turn < o.wait.turn
}
func (h *Host) place() *int { return &h.wait.index }

func (l *line) before(o *line) bool {
	mine, other := l.hosts[0].wait.rank, o.hosts[0].wait.rank
	return mine < other || mine == other && l.turn < o.turn
}
func (l *line) place() *int { return &l.index }

func (q *queue) len() int { return q.n }

// Add appends a host to its domain's line, after hosts of the same rank. A host already queued
// moves ahead if its rank has become lower.
func (q *queue) Add(h *Host) {
	name, rank := domain.Of(h.Rec.Name), h.rank()
	l := q.lines[name]
	switch {
	case h.wait.queued && h.wait.rank <= rank:
		return
	case h.wait.queued:
		h.wait.rank = rank
		heap.Fix(&l.hosts, h.wait.index)
	default:
		q.n++
		q.turn++
		h.wait = waiting{queued: true, rank: rank, turn: q.turn}
		if l == nil {
			if q.lines == nil {
				q.lines = make(map[string]*line)
			}
			l = &line{domain: name, turn: q.turn, hosts: inTurn[*Host]{h}}
			q.lines[name] = l
			heap.Push(&q.turns, l)
			return
		}
		heap.Push(&l.hosts, h)
	}
	heap.Fix(&q.turns, l.index)
}

// Take removes the first host of the domain whose turn it is. It may have been evicted meanwhile.
func (q *queue) Take() *Host {
	l := q.turns[0]
	h := heap.Pop(&l.hosts).(*Host)
	if len(l.hosts) > 0 {
		q.turn++
		l.turn = q.turn
		heap.Fix(&q.turns, 0)
	} else {
		heap.Pop(&q.turns)
		delete(q.lines, l.domain)
	}
	q.n--
	h.wait = waiting{}
	return h
}

// turner is a heap element with an order and an index.
type turner[T any] interface {
	before(o T) bool
	place() *int
}

// inTurn is a heap of turners.
type inTurn[T turner[T]] []T

// Len implements heap.Interface.
func (t inTurn[T]) Len() int { return len(t) }

// Less implements heap.Interface.
func (t inTurn[T]) Less(i, j int) bool { return t[i].before(t[j]) }

// Swap implements heap.Interface.
func (t inTurn[T]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	*t[i].place(), *t[j].place() = i, j
}

// Push implements heap.Interface.
func (t *inTurn[T]) Push(v any) {
	of := v.(T)
	*of.place() = len(*t)
	*t = append(*t, of)
}

// Pop implements heap.Interface.
func (t *inTurn[T]) Pop() any {
	last := len(*t) - 1
	v := (*t)[last]
	var none T
	(*t)[last] = none
	*t = (*t)[:last]
	*v.place() = -1
	return v
}

// wakeup is the entry of a host in the heap of next evaluations.
type wakeup struct{ *Host }

func (w wakeup) before(o wakeup) bool { return w.wakeAt < o.wakeAt }
func (w wakeup) place() *int          { return &w.heap }

// wakes is a heap of hosts by the time of their next evaluation.
type wakes struct{ list inTurn[wakeup] }

func (w *wakes) set(h *Host, at int64) {
	if at == Never {
		w.remove(h)
		return
	}
	if h.wakeAt = at; h.heap < 0 {
		heap.Push(&w.list, wakeup{h})
	} else {
		heap.Fix(&w.list, h.heap)
	}
}

func (w *wakes) remove(h *Host) {
	if h.heap >= 0 {
		heap.Remove(&w.list, h.heap)
		h.wakeAt = Never
	}
}

func (w *wakes) First() int64 {
	if len(w.list) == 0 {
		return Never
	}
	return w.list[0].wakeAt
}

// Due removes and returns the first host that is due.
func (w *wakes) Due(now int64) *Host {
	if w.First() > now {
		return nil
	}
	h := w.list[0].Host
	w.remove(h)
	return h
}

// purges lists the hosts with URLs to purge, in order of arrival.
//
//	state     next      because
//	none      purging   add: some URLs of the host share an outcome; the search for a worker is suspended
//	purging   none      pass: all of them have it
type purges struct{ list []*Host }

func (p *purges) Some() bool { return len(p.list) > 0 }

func (p *purges) add(h *Host) {
	h.purging = true
	p.list = append(p.list, h)
}

func (p *purges) First() *Host { return p.list[0] }

// Pass removes the first host, which may be added again.
func (p *purges) Pass() {
	p.list[0].purging = false
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil
	}
}

const (
	// SweepHosts is the number of hosts loaded in one step, at one or two disk reads each.
	SweepHosts = 64
	// SweepPasses bounds the index entries that one step skips, since they are in memory or have other
	// work.
	SweepPasses = 4096
	// sweepEvery is the pause in ms between such steps once memory is full of hosts with waiting URLs.
	sweepEvery = 250
)

// sweep iterates over the index of hosts with work and loads those that are not in memory: all of
// them after a start, and evicted hosts in turn when memory cannot hold all.
type sweep struct {
	Wanted  bool
	dropped bool // some host was evicted since the iteration began
	Cursor  []byte
	NextAt  int64
}

func (s *sweep) Idle(now int64) bool { return s.NextAt > now }
