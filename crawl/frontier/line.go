package frontier

import "time"

// lines are the hosts that may be asked as far as their own delays go, one line a group. The groups have turns; within one the host that came first is next. Each
// operation takes the same time, however many wait.
type lines[T any] struct {
	of    map[string]*line[T]
	turns fifo[*line[T]] // in the order of their turns
	n     int            // hosts
	since time.Time      // when a host was added last
}

// line are the hosts of a group, some of which may have left it by other ways than its front.
type line[T any] struct {
	group string
	hosts fifo[*host[T]]
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
	own.hosts.add(h)
	h.line = own
	l.n++
	l.since = now
}

// first returns the first host of the group whose turn it is, nil if there is none.
func (l *lines[T]) first() *host[T] {
	for l.turns.len() > 0 {
		own := l.turns.first()
		for own.hosts.len() > 0 {
			if h := own.hosts.first(); h.line == own {
				return h
			}
			own.hosts.drop()
		}
		l.next()
	}
	return nil
}

// take takes off the host that first returned.
func (l *lines[T]) take(h *host[T]) {
	l.turns.first().hosts.drop()
	l.remove(h)
	l.next()
}

// next ends the turn of the first group, which is forgotten if nobody waits in its line.
func (l *lines[T]) next() {
	own := l.turns.first()
	l.turns.drop()
	if own.hosts.len() > 0 {
		l.turns.add(own)
	} else {
		delete(l.of, own.group)
	}
}

// remove takes a host out of its line, if it is in one. What stands there of it is passed over.
func (l *lines[T]) remove(h *host[T]) {
	if h.line != nil {
		h.line = nil
		l.n--
	}
}

// fifo is a list of which the first is dropped.
type fifo[E any] struct {
	list []E
	head int
}

func (q *fifo[E]) len() int { return len(q.list) - q.head }

func (q *fifo[E]) first() E { return q.list[q.head] }

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
