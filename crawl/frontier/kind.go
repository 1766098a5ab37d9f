package frontier

import (
	"net/netip"
	"time"
)

// kind says whether a host can be expected to answer soon. One that does not holds a fetcher
// meanwhile, be it until a timeout, and a domain or an address may have hundreds of them among
// those that do. So the visits of such hosts are bounded, which leaves fetchers for the others.
type kind int

const (
	unknown kind = iota // it was never asked
	slow                // its last visit took long, or came to nothing
	prompt              // its last visit was over soon
	kinds
)

// soon is how long the last visit of a prompt host took at most, with all that was to be done
// before its request: with 32 fetchers that are all taken for so long, one is free every 30 ms.
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

// share is one of how many parts of the fetchers slow hosts have while others wait; so has the slow
// and unknown part of a group, and the slow one of an address.
const share = 4

// held counts the open visits of hosts that are not prompt, all and by what they have in common.
type held struct {
	fetchers int // zero: any number
	prompt   int // hosts that are, visited or not
	slow     int
	unknown  int
	groups   map[string]int
	ips      map[netip.Addr]int // of slow hosts
}

// maxPast bounds the hosts of which the kind is remembered after they were forgotten: one that was
// given back for a moment is no other when it comes again.
const maxPast = 1 << 14

// remember keeps the kind of a host that is forgotten.
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

// holds is what an open visit counts for.
type holds struct {
	kind kind
	ip   netip.Addr
}

func newHeld() held { return held{groups: make(map[string]int), ips: make(map[netip.Addr]int)} }

func (d *held) begin(group string, v holds) { d.add(group, v, 1) }

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

// full says that no further host that is not prompt is visited, though nobody else waits: the rest
// of the fetchers is for prompt ones, if there are any, when they are due.
func (d *held) full() bool {
	most := d.fetchers
	if d.prompt > 0 {
		most -= d.fetchers / share
	}
	return d.fetchers > 0 && d.slow+d.unknown >= most
}

// most is the share of what is bounded while others wait.
func (d *held) most() int { return max(d.fetchers/share, 1) }

// waits says whether a host stands back while others wait.
func (d *held) waits(k kind, group string, ip netip.Addr) bool {
	switch most := d.most(); {
	case d.fetchers == 0 || k == prompt:
		return false
	case d.full() || d.groups[group] >= most:
		return true
	default:
		return k == slow && (d.slow >= most || ip.IsValid() && d.ips[ip] >= most)
	}
}

// Fetchers says how many visits there may be at once, zero for any number. While there are prompt
// hosts, three quarters at most are of others; while others wait, slow ones have a quarter, and so
// have those of a group and of an address.
func (f *Frontier[T]) Fetchers(n int) { f.held.fetchers = n }

// Waits says that no fetcher is with an open visit: it counts as one no more.
func (f *Frontier[T]) Waits(name string) {
	if h := f.hosts[name]; h != nil && h.visited {
		f.held.end(h.group, h.holds)
		h.holds = holds{kind: prompt}
	}
}

// standsBack says whether a host is visited only if no other waits.
func (f *Frontier[T]) standsBack(h *host[T]) bool { return f.held.waits(h.kind(), h.group, h.addr) }
