package frontier

import (
	"container/heap"
	"net/netip"
	"time"
)

// Frontier holds the host queues of one worker. T is the type of their items. Not safe for
// concurrent use.
type Frontier[T any] struct {
	cfg    Config
	hosts  map[string]*host[T]
	due    queue[*host[T]]
	lines  lines[T] // hosts whose delay is over
	ips    addresses[T]
	serial uint64
	items  int
	held   held
	past   map[string]kind // of removed hosts
}

// host is one host queue. It is in exactly one place: in the heap of due times, in the line of its
// group, parked at its address, visited, or, without items, nowhere.
type host[T any] struct {
	entry
	name    string
	group   string
	line    *line[T]
	items   []T
	head    int // items before it are taken
	crawl   time.Duration
	took    time.Duration
	slow    float64 // factor of its delay; 1 or less: none
	past    kind    // its kind before, until the first request
	met     bool    // there was a request to it
	hung    bool    // the last one got no answer
	stood   uint64
	begun   time.Time     // of the visit
	held    time.Duration // duration of the last visit with a request
	visited bool
	holds   holds // counters that its visit increased
	gone    bool  // removed while visited: dropped when the visit ends, unless it is added again
	addr    netip.Addr
	parked  *address[T]
	using   *address[T] // the address that the visit counts for
}

// New returns an empty frontier.
func New[T any](cfg Config) *Frontier[T] {
	cfg.fill()
	return &Frontier[T]{
		cfg: cfg, hosts: make(map[string]*host[T]),
		held: newHeld(), past: make(map[string]kind), ips: addresses[T]{most: cfg.PerIP, gap: cfg.IPDelay, at: make(map[netip.Addr]*address[T])},
	}
}

// Push appends items to the queue of a host, and creates it if necessary.
func (f *Frontier[T]) Push(name string, items ...T) {
	h := f.open(name)
	h.items = append(h.items, items...)
	f.items += len(items)
	f.place(h)
}

// Unget returns an item to the front of its queue.
func (f *Frontier[T]) Unget(name string, item T) {
	h := f.open(name)
	if h.head > 0 {
		h.head--
		h.items[h.head] = item
	} else {
		h.items = append([]T{item}, h.items...)
	}
	f.items++
	f.place(h)
}

func (f *Frontier[T]) open(name string) *host[T] {
	h := f.hosts[name]
	if h == nil {
		h = &host[T]{name: name, group: f.group(name), entry: entry{index: -1}}
		h.past = f.past[name]
		delete(f.past, name)
		f.held.count(h.kind(), 1)
		f.hosts[name] = h
	}
	h.gone = false
	return h
}

// place queues a host that has items, and is not visited.
func (f *Frontier[T]) place(h *host[T]) {
	if h.visited || h.parked != nil || h.line != nil || h.index >= 0 || h.head == len(h.items) {
		return
	}
	f.serial++
	h.serial = f.serial
	heap.Push(&f.due, h)
}

// Next opens the visit of the host that has been due for longest, of the next group in turn, and
// returns its name; it skips hosts that stand back, see Fetchers. If none is due the name is empty,
// and due is when to call again; the zero time if only a Push or the end of a visit can change
// that.
func (f *Frontier[T]) Next(now time.Time) (name string, due time.Time) {
	for {
		h, a := f.longest(now)
		switch {
		case h == nil:
			return "", f.Due()
		case a != nil:
			f.ips.unpark(h)
			if f.rests(h.group) {
				f.ips.reindex(a)
				f.lines.add(now, h)
				continue
			}
			return f.visit(now, h), now
		}
		f.lines.take(h)
		if a := f.ips.at[h.addr]; a != nil && !f.ips.takes(now, a) {
			f.ips.park(h, a)
			continue
		}
		return f.visit(now, h), now
	}
}

// longest returns the next host, with its address if it waits for that and has been due for longer;
// nil if none may be visited.
func (f *Frontier[T]) longest(now time.Time) (h *host[T], a *address[T]) {
	f.lines.rested(now)
	for len(f.due) > 0 && !f.due[0].due.After(now) {
		f.lines.add(now, heap.Pop(&f.due).(*host[T]))
	}
	h = f.first()
	if a := f.ips.first(now); a != nil && (h == nil || a.waiting[0].due.Before(h.due) && !f.standsBack(a.waiting[0])) {
		return a.waiting[0], a
	}
	return h, nil
}

// first returns the first host of the next group in turn that has one that need not stand back; nil
// if none may be visited.
func (f *Frontier[T]) first() *host[T] {
	h := f.lines.first(f.standsBack)
	if h == nil && !f.held.full() {
		h = f.lines.first(nil)
	}
	return h
}

// Ready reports whether Next would open a visit, or move a host to the queue of its address.
func (f *Frontier[T]) Ready(now time.Time) bool {
	h, _ := f.longest(now)
	return h != nil
}

// Due returns when to call Next again; the zero time if only a Push or the end of a visit can
// change anything.
func (f *Frontier[T]) Due() (due time.Time) {
	if f.lines.n[prompt] > 0 || f.lines.n[slow]+f.lines.n[unknown] > 0 && !f.held.full() {
		return f.lines.since
	}
	due = f.due.sooner(due)
	due = f.lines.resting.sooner(due)
	return f.ips.freed.sooner(due)
}

// visit opens the visit of a host that was removed from its queue.
func (f *Frontier[T]) visit(now time.Time, h *host[T]) string {
	h.visited, h.begun = true, now
	h.holds = holds{h.kind(), h.addr}
	f.held.begin(h.group, h.holds)
	f.openGroup(h.group)
	if a := f.ips.at[h.addr]; a != nil {
		h.using = a
		f.ips.begin(now, a)
	}
	return h.name
}

// Take removes and returns the next item of a host's queue.
func (f *Frontier[T]) Take(name string) (item T, ok bool) {
	h := f.hosts[name]
	if h == nil || h.head == len(h.items) {
		return item, false
	}
	item = h.items[h.head]
	var zero T
	h.items[h.head] = zero
	if h.head++; h.head == len(h.items) {
		h.items, h.head = h.items[:0], 0
	}
	f.items--
	return item, true
}

// Done closes a visit with a request that took that long and ended now.
func (f *Frontier[T]) Done(now time.Time, name string, took time.Duration) {
	h := f.hosts[name]
	if h == nil || !h.visited {
		return
	}
	f.closes(now, h, took, false)
}

// Hung closes a visit with a request that got no answer. The delay is that after a request that
// took that long.
func (f *Frontier[T]) Hung(now time.Time, name string, took time.Duration) {
	h := f.hosts[name]
	if h == nil || !h.visited {
		return
	}
	f.closes(now, h, took, true)
}

// closes closes a visit with a request, and sets the delay for one that took that long.
func (f *Frontier[T]) closes(now time.Time, h *host[T], took time.Duration, hung bool) {
	f.held.count(h.kind(), -1)
	h.took, h.hung, h.met, h.held = took, hung, true, now.Sub(h.begun)
	f.held.count(h.kind(), 1)
	h.setDue(now.Add(f.delay(h)))
	f.leave(h)
	f.closeGroup(now, h.group, f.cfg.GroupDelay)
}

// Free closes a visit without a request: no delay follows.
func (f *Frontier[T]) Free(name string) {
	if h := f.hosts[name]; h != nil && h.visited {
		f.leave(h)
		f.closeGroup(time.Time{}, h.group, 0)
	}
}

func (f *Frontier[T]) leave(h *host[T]) {
	h.visited = false
	f.held.end(h.group, h.holds)
	if a := h.using; a != nil {
		h.using = nil
		f.ips.end(a)
	}
	if h.gone {
		f.forget(h)
		return
	}
	f.place(h)
}

// delay returns the politeness delay after a request to h.
func (f *Frontier[T]) delay(h *host[T]) time.Duration {
	d := max(f.cfg.Delay, f.cfg.GroupDelay, h.crawl)
	if f.cfg.Factor > 0 {
		d = max(d, min(time.Duration(f.cfg.Factor*float64(h.took)), f.cfg.MaxAdaptive))
	}
	if h.slow > 1 {
		d = max(d, time.Duration(min(h.slow*float64(d), float64(f.cfg.MaxAdaptive))))
	}
	return d
}
