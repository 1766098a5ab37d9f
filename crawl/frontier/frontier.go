package frontier

import (
	"cmp"
	"container/heap"
	"fmt"
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
		held: held{groups: make(map[string]int), ips: make(map[netip.Addr]int)}, past: make(map[string]kind), ips: addresses[T]{most: cfg.PerIP, gap: cfg.IPDelay, at: make(map[netip.Addr]*address[T])},
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
	f.held.add(h.group, h.holds, 1)
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
	if due := now.Add(f.delay(h)); due.After(h.due) {
		h.due = due
	}
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

const (
	// DefaultMaxCrawlDelay limits the Crawl-delay of robots.txt: beyond a minute a page, a host of
	// some size would never be finished.
	DefaultMaxCrawlDelay = time.Minute
	// DefaultFactor of the response time: a site that takes two seconds a page gets a delay of four
	// seconds.
	DefaultFactor = 2
	// DefaultMaxAdaptive limits the delay by the factor, so that one stalled answer does not stop a
	// host.
	DefaultMaxAdaptive = 30 * time.Second
	// DefaultPerIP is the number of concurrent requests to one address.
	DefaultPerIP = 4
	// ipShare: the minimum gap between requests to one address is the floor divided by it.
	ipShare = 4
)

// Config is the configuration of politeness.
type Config struct {
	// Delay is the floor: the minimum time from the end of a request to the next one of the same host.
	// With zero there is no limit, unless a robots.txt sets one: neither Factor nor the limits per
	// address apply then.
	Delay time.Duration
	// MaxCrawlDelay limits the delay of robots.txt. Zero: DefaultMaxCrawlDelay.
	MaxCrawlDelay time.Duration
	// Factor is multiplied by the duration of the last request. Zero: DefaultFactor; negative: none.
	Factor float64
	// MaxAdaptive limits that product. Zero: DefaultMaxAdaptive.
	MaxAdaptive time.Duration
	// PerIP limits the concurrent requests to one address. Zero: DefaultPerIP; negative: no limit.
	PerIP int
	// IPDelay is the minimum time between the starts of two requests to one address. Zero: a quarter
	// of Delay; negative: none.
	IPDelay time.Duration
	// Group returns the group of a host, such as its registrable domain. Groups are served
	// round-robin, so that one with thousands of hosts gets no more fetchers than others. Nil: all
	// hosts are of one group.
	Group func(host string) string
	// GroupDelay is the minimum time from the end of a request to the next one of the same group,
	// whose hosts then have one visit at a time. Zero: no delay of groups.
	GroupDelay time.Duration
}

func (c *Config) fill() {
	c.MaxCrawlDelay = cmp.Or(c.MaxCrawlDelay, DefaultMaxCrawlDelay)
	c.Factor = cmp.Or(c.Factor, DefaultFactor)
	c.MaxAdaptive = cmp.Or(c.MaxAdaptive, DefaultMaxAdaptive)
	c.PerIP = cmp.Or(c.PerIP, DefaultPerIP)
	c.IPDelay = cmp.Or(c.IPDelay, c.Delay/ipShare)
	if c.Delay == 0 {
		c.Factor, c.PerIP, c.IPDelay = -1, -1, -1
	}
}

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	if c.Delay < 0 {
		return fmt.Errorf("frontier config: Delay %v: must not be negative", c.Delay)
	}
	if c.GroupDelay < 0 {
		return fmt.Errorf("frontier config: GroupDelay %v: must not be negative", c.GroupDelay)
	}
	if c.MaxCrawlDelay < 0 {
		return fmt.Errorf("frontier config: MaxCrawlDelay %v: must not be negative", c.MaxCrawlDelay)
	}
	if c.MaxAdaptive < 0 {
		return fmt.Errorf("frontier config: MaxAdaptive %v: must not be negative", c.MaxAdaptive)
	}
	return nil
}

func (f *Frontier[T]) group(host string) string {
	if f.cfg.Group == nil {
		return ""
	}
	return f.cfg.Group(host)
}

// EnterGroup opens a visit of the group of a host that is in no queue, on behalf of another whose
// visit is open; false during the group's delay. The caller must call LeaveGroup.
func (f *Frontier[T]) EnterGroup(now time.Time, host, other string) bool {
	if f.cfg.GroupDelay == 0 {
		return true
	}
	group := f.group(host)
	f.lines.rested(now)
	if f.rests(group) && !f.sharesGroup(group, other) {
		return false
	}
	f.openGroup(group)
	return true
}

// LeaveGroup closes a visit that EnterGroup opened, with a request.
func (f *Frontier[T]) LeaveGroup(now time.Time, host string) {
	if f.cfg.GroupDelay > 0 {
		f.closeGroup(now, f.group(host), f.cfg.GroupDelay)
	}
}

// rests reports whether a group has a visit, or its delay is not over.
func (f *Frontier[T]) rests(group string) bool {
	if f.cfg.GroupDelay == 0 {
		return false
	}
	own := f.lines.of[group]
	return own != nil && own.rests()
}

func (f *Frontier[T]) sharesGroup(group, host string) bool {
	h := f.hosts[host]
	return h != nil && h.visited && h.group == group
}

func (f *Frontier[T]) openGroup(group string) {
	if f.cfg.GroupDelay > 0 {
		f.lines.open(f.lines.at(group))
	}
}

func (f *Frontier[T]) closeGroup(now time.Time, group string, rest time.Duration) {
	if f.cfg.GroupDelay > 0 {
		f.lines.close(now, f.lines.at(group), now.Add(rest))
	}
}
