package frontier

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// kind predicts whether a host answers soon. One that does not occupies a fetcher, possibly until a
// timeout, and a domain or an address may have hundreds of them among others. So the visits of such
// hosts are limited, which leaves fetchers for the others.
type kind int

const (
	unknown kind = iota // no request yet
	slow                // its last visit took long, or failed
	prompt              // its last visit was short
	kinds
)

// soon is the longest duration of the last visit of a prompt host, with everything before its
// request: with 32 fetchers that are all busy for so long, one is free every 30 ms.
const soon = time.Second

func (h *host[T]) kind() kind {
	switch {
	case !h.met:
		return h.past
	case h.hung || h.held > soon:
		return slow
	default:
		return prompt
	}
}

// share: slow hosts have one in share fetchers while others wait; so have the slow and unknown
// hosts of a group, and the slow ones of an address.
const share = 4

// held counts the open visits of hosts that are not prompt, in all, by group and by address.
type held struct {
	fetchers int // zero: no limit
	prompt   int // prompt hosts, visited or not
	slow     int
	unknown  int
	groups   map[string]int
	ips      map[netip.Addr]int // of slow hosts
}

// maxPast bounds the hosts whose kind is remembered after their removal: a host that was given back
// briefly keeps its kind.
const maxPast = 1 << 14

// remember stores the kind of a removed host.
func (f *Frontier[T]) remember(h *host[T]) {
	k := h.kind()
	if k == unknown {
		return
	}
	if len(f.past) >= maxPast {
		clear(f.past)
	}
	f.past[h.name] = k
}

// holds are the counters that an open visit increases.
type holds struct {
	kind kind
	ip   netip.Addr
}

func (d *held) end(group string, v holds) { d.add(group, v, -1) }

func (d *held) add(group string, v holds, n int) {
	switch v.kind {
	case prompt:
		return
	case unknown:
		d.unknown += n
	case slow:
		d.slow += n
		count(d.ips, v.ip, n)
	}
	count(d.groups, group, n)
}

// count adds to the hosts of a kind.
func (d *held) count(k kind, n int) {
	if k == prompt {
		d.prompt += n
	}
}

func count[K comparable](m map[K]int, key K, n int) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

// full reports whether no further host that is not prompt may be visited, even if no other waits:
// the remaining fetchers are reserved for prompt hosts, if there are any.
func (d *held) full() bool {
	most := d.fetchers
	if d.prompt > 0 {
		most -= d.fetchers / share
	}
	return d.fetchers > 0 && d.slow+d.unknown >= most
}

// waits reports whether a host stands back while others wait.
func (d *held) waits(k kind, group string, ip netip.Addr) bool {
	switch most := max(d.fetchers/share, 1); {
	case d.fetchers == 0 || k == prompt:
		return false
	case d.full() || d.groups[group] >= most:
		return true
	default:
		return k == slow && (d.slow >= most || ip.IsValid() && d.ips[ip] >= most)
	}
}

// Fetchers sets the limit of concurrent visits, zero for none. While there are prompt hosts, at
// most three quarters are of others; while others wait, slow hosts have a quarter, and so have
// those of a group and of an address.
func (f *Frontier[T]) Fetchers(n int) { f.held.fetchers = n }

// Waits marks an open visit as without a fetcher, so that it is not counted.
func (f *Frontier[T]) Waits(name string) {
	if h := f.hosts[name]; h != nil && h.visited {
		f.held.end(h.group, h.holds)
		h.holds = holds{kind: prompt}
	}
}

// standsBack reports whether a host is visited only if no other waits.
func (f *Frontier[T]) standsBack(h *host[T]) bool { return f.held.waits(h.kind(), h.group, h.addr) }

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
