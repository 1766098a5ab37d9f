package frontier

import "time"

// lines are the hosts that may be asked as far as their own delays go, one line a group. The groups
// have turns; within one the host that came first is next. Each operation takes the same time,
// however many wait; but where hosts stand back, each group may be looked at.
type lines[T any] struct {
	of    map[string]*line[T]
	turns fifo[*line[T]] // in the order of their turns
	n     [kinds]int     // hosts
	added uint64
	since time.Time // when a host was added last
}

// line are the hosts of a group, some of which may have left it by other ways than its front.
type line[T any] struct {
	group string
	hosts [kinds]fifo[*host[T]]
}

// add puts a host at the end of its group's line.
func (l *lines[T]) add(now time.Time, h *host[T]) {
	own := l.of[h.group]
	if own == nil {
		if l.of == nil {
			l.of = make(map[string]*line[T])
		}
		own = &line[T]{group: h.group}
		l.of[h.group] = own
		l.turns.add(own)
	}
	k := h.kind()
	own.hosts[k].add(h)
	h.line = own
	l.n[k]++
	l.added++
	h.stood = l.added
	l.since = now
}

// first returns the first host of the group whose turn it is, or of the next one that has any; nil
// if there is none. It is none that stands back; of each kind in a line only the first is looked
// at.
func (l *lines[T]) first(standsBack func(h *host[T]) bool) *host[T] {
	for l.turns.len() > 0 && l.turns.first().empty() {
		l.drop()
	}
	for i := range l.turns.len() {
		if h := l.turns.at(i).next(standsBack); h != nil {
			return h
		}
	}
	return nil
}

// next is the host of the line that came first, nil if there is none.
func (own *line[T]) next(standsBack func(h *host[T]) bool) (next *host[T]) {
	for k := range kinds {
		if h := own.front(k); h != nil && (next == nil || h.stood < next.stood) && (standsBack == nil || !standsBack(h)) {
			next = h
		}
	}
	return next
}

// front is the first host of a kind. Those that have left the line are dropped.
func (own *line[T]) front(k kind) *host[T] {
	for q := &own.hosts[k]; q.len() > 0; q.drop() {
		if h := q.first(); h.line == own {
			return h
		}
	}
	return nil
}

func (own *line[T]) empty() bool { return own.next(nil) == nil }

// take takes off a host that first returned, which ends the turn of its group.
func (l *lines[T]) take(h *host[T]) {
	own := h.line
	own.hosts[h.kind()].drop()
	l.remove(h)
	for i := range l.turns.len() {
		if l.turns.at(i) == own {
			l.turns.remove(i)
			break
		}
	}
	if own.empty() {
		delete(l.of, own.group)
		return
	}
	l.turns.add(own)
}

// drop forgets the group whose turn it is.
func (l *lines[T]) drop() {
	delete(l.of, l.turns.first().group)
	l.turns.drop()
}

// remove takes a host out of its line, if it is in one. What stands there of it is passed over.
func (l *lines[T]) remove(h *host[T]) {
	if h.line != nil {
		h.line = nil
		l.n[h.kind()]--
	}
}

// fifo is a list of which the first is dropped.
type fifo[E any] struct {
	list []E
	head int
}

func (q *fifo[E]) len() int { return len(q.list) - q.head }

func (q *fifo[E]) first() E { return q.list[q.head] }

func (q *fifo[E]) at(i int) E { return q.list[q.head+i] }

// remove takes one out, of which there are few before it.
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
