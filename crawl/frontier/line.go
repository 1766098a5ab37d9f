package frontier

import (
	"container/heap"
	"time"
)

// lines are the hosts whose own delays are over, one line a group. Groups are served round-robin;
// within one the first host is next. Each operation takes constant time, however many wait; but
// where hosts stand back, each group may be examined.
type lines[T any] struct {
	of      map[string]*line[T]
	turns   fifo[*line[T]]  // in the order of service; deferred ones are skipped
	resting queue[*line[T]] // deferred groups by due time
	n       [kinds]int      // hosts of groups that are not deferred
	added   uint64
	since   time.Time // when a host was added last
}

// line are the hosts of a group; some may have left it other than from the front.
type line[T any] struct {
	entry // in lines.resting
	group string
	hosts [kinds]fifo[*host[T]]
	n     [kinds]int // those that have not left it
	turn  bool       // it is in lines.turns
	open  bool       // it has a visit, and groups have a delay
}

// rests reports whether no host of the group may be visited.
func (own *line[T]) rests() bool { return own.open || own.index >= 0 }

// at returns the line of a group, and creates it if necessary.
func (l *lines[T]) at(group string) *line[T] {
	own := l.of[group]
	if own == nil {
		if l.of == nil {
			l.of = make(map[string]*line[T])
		}
		own = &line[T]{entry: entry{index: -1}, group: group}
		l.of[group] = own
	}
	return own
}

// add appends a host to its group's line.
func (l *lines[T]) add(now time.Time, h *host[T]) {
	own := l.at(h.group)
	k := h.kind()
	own.hosts[k].add(h)
	h.line = own
	own.n[k]++
	l.added++
	h.stood = l.added
	l.since = now
	if !own.rests() {
		l.n[k]++
		l.queue(own)
	}
}

// queue appends a group to the service order, unless it is in it.
func (l *lines[T]) queue(own *line[T]) {
	if !own.turn {
		own.turn = true
		l.turns.add(own)
	}
}

// open defers a group until close.
func (l *lines[T]) open(own *line[T]) {
	if !own.rests() {
		l.count(own, -1)
	}
	own.open = true
}

// close ends a visit of a group, which is deferred until then, or longer as set by others.
func (l *lines[T]) close(now time.Time, own *line[T], until time.Time) {
	l.open(own) // no longer open if another visit of the group ended meanwhile
	own.open = false
	switch {
	case own.index >= 0 && until.After(own.due):
		own.due = until
		heap.Fix(&l.resting, own.index)
	case own.index >= 0:
	case until.After(now):
		own.due = until
		heap.Push(&l.resting, own)
	default:
		l.wake(own)
	}
}

// rested ends the delay of groups that are due.
func (l *lines[T]) rested(now time.Time) {
	for len(l.resting) > 0 && !l.resting[0].due.After(now) {
		l.wake(heap.Pop(&l.resting).(*line[T]))
	}
}

func (l *lines[T]) wake(own *line[T]) {
	l.count(own, 1)
	switch {
	case !own.empty():
		l.queue(own)
	case !own.turn:
		delete(l.of, own.group)
	}
}

// count adds or subtracts the hosts of a group whose delay ends or begins.
func (l *lines[T]) count(own *line[T], sign int) {
	for k, n := range own.n {
		l.n[k] += sign * n
	}
}

// first returns the first host of the next group in turn that has one; nil if there is none. It
// skips hosts that stand back; of each kind in a line only the first is examined.
func (l *lines[T]) first(standsBack func(h *host[T]) bool) *host[T] {
	for l.turns.len() > 0 && (l.turns.first().rests() || l.turns.first().empty()) {
		l.drop()
	}
	for i := range l.turns.len() {
		if own := l.turns.at(i); !own.rests() {
			if h := own.next(standsBack); h != nil {
				return h
			}
		}
	}
	return nil
}

// next returns the host that is first in the line, nil if there is none.
func (own *line[T]) next(standsBack func(h *host[T]) bool) (next *host[T]) {
	for k := range kinds {
		if h := own.front(k); h != nil && (next == nil || h.stood < next.stood) && (standsBack == nil || !standsBack(h)) {
			next = h
		}
	}
	return next
}

// front returns the first host of a kind. It drops those that have left the line.
func (own *line[T]) front(k kind) *host[T] {
	for q := &own.hosts[k]; q.len() > 0; q.drop() {
		if h := q.first(); h.line == own {
			return h
		}
	}
	return nil
}

func (own *line[T]) empty() bool { return own.next(nil) == nil }

// take removes a host that first returned, which ends the turn of its group.
func (l *lines[T]) take(h *host[T]) {
	own := h.line
	own.hosts[h.kind()].drop()
	l.remove(h)
	for i := range l.turns.len() {
		if l.turns.at(i) == own {
			l.turns.remove(i)
			own.turn = false
			break
		}
	}
	if own.empty() {
		delete(l.of, own.group)
		return
	}
	l.queue(own)
}

// drop removes the first group from the order, and deletes one that is not deferred.
func (l *lines[T]) drop() {
	own := l.turns.first()
	if own.turn = false; !own.rests() {
		delete(l.of, own.group)
	}
	l.turns.drop()
}

// remove removes a host from its line, if it is in one. Its entry there is skipped.
func (l *lines[T]) remove(h *host[T]) {
	if own := h.line; own != nil {
		h.line = nil
		if own.n[h.kind()]--; !own.rests() {
			l.n[h.kind()]--
		}
	}
}

// fifo is a queue.
type fifo[E any] struct {
	list []E
	head int
}

func (q *fifo[E]) len() int { return len(q.list) - q.head }

func (q *fifo[E]) first() E { return q.list[q.head] }

func (q *fifo[E]) at(i int) E { return q.list[q.head+i] }

// remove removes one that has few before it.
func (q *fifo[E]) remove(i int) {
	copy(q.list[q.head+1:q.head+i+1], q.list[q.head:q.head+i])
	q.drop()
}

func (q *fifo[E]) add(e E) {
	if q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, e)
}

func (q *fifo[E]) drop() {
	var none E
	q.list[q.head] = none
	q.head++
}
