package dhttest

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Errors that calls end with.
var (
	ErrTimeout = errors.New("no answer in time")
	ErrRefused = errors.New("connection refused")
)

// Purpose is what bytes are sent for. A simulation of more than the ring has purposes of its own,
// from Others on.
type Purpose uint8

// The purposes.
const (
	// Upkeep of the ring: stabilize, searches of the own place, probes of the suspect.
	Upkeep Purpose = iota
	// Lookups of owners.
	Lookups
	// Others is the first purpose that is not the ring's.
	Others
)

// maxPurposes is how many purposes there can be.
const maxPurposes = 16

// Sent is what was sent, by purpose.
type Sent [maxPurposes]Traffic

// Internet says how long a message and its answer take between two hosts, numbered from 0 without
// an end: never 0, never negative.
type Internet interface {
	RTT(i, j int) time.Duration
}

// Pairs is an Internet with a round trip of 20 to 60 ms for each pair, drawn from the seed that it
// is.
type Pairs uint64

// RTT implements Internet.
func (p Pairs) RTT(i, j int) time.Duration {
	rnd := rand.New(rand.NewPCG(uint64(p)+uint64(min(i, j)), uint64(max(i, j)))) // not negative
	return 20*time.Millisecond + time.Duration(rnd.IntN(40))*time.Millisecond
}

// Traffic is what was sent for a purpose, answers included.
type Traffic struct {
	Calls, Bytes int64 // Bytes with those of the answers
}

// Network carries calls between hosts. Not safe for concurrent use.
type Network struct {
	*Clock
	Internet Internet // how far hosts are from each other
	// Loss is the share of messages that vanish, each way.
	Loss float64
	// NAT says which hosts cannot be dialled: what is sent to one arrives only where it sent
	// something itself in the last minute, so that there is a connection. nil: none.
	NAT func(i int) bool
	// Sent is what was sent so far.
	Sent Sent

	rnd   *rand.Rand
	cut   func(i, j int) bool
	lines map[[2]int]time.Duration // when a host that cannot be dialled last sent something to another
}

// NewNetwork returns a network without hosts.
func NewNetwork(clock *Clock, internet Internet, seed uint64) *Network {
	return &Network{
		Clock: clock, Internet: internet, rnd: rand.New(rand.NewPCG(seed, 0x6e6574)), lines: make(map[[2]int]time.Duration),
	}
}

// Host is one end of a Network.
type Host struct {
	Index int // its number in Internet

	net    *Network
	up     bool
	silent bool          // while down, it eats what is sent to it instead of refusing it
	life   uint64        // grows with each start and end, so that what was meant for an earlier life does not happen
	thaw   time.Duration // it does nothing before
}

// NewHost returns a host that is down.
func (n *Network) NewHost(index int) *Host { return &Host{Index: index, net: n} }

// Up says whether the host lives.
func (h *Host) Up() bool { return h.up }

// Life is a number that no other life of the host has.
func (h *Host) Life() uint64 { return h.life }

// Start lets the host live.
func (h *Host) Start() { h.up, h.thaw = true, 0; h.life++ }

// Stop ends the host as kill -9 does. A silent one is not even there to refuse connections, as a
// machine without power.
func (h *Host) Stop(silent bool) { h.up, h.silent = false, silent; h.life++ }

// Pause suspends the host for d, as SIGSTOP does: it neither acts nor answers, and whatever comes
// meanwhile waits for it.
func (h *Host) Pause(d time.Duration) { h.thaw = h.net.at + d }

// Paused says whether the host is suspended at this moment.
func (h *Host) Paused() bool { return h.thaw > h.net.at }

// After plans fn for a delay from now, unless the host ends before; a paused host does it when it
// goes on.
func (h *Host) After(delay time.Duration, fn func()) {
	life := h.life
	h.net.After(delay, func() {
		if h.life == life {
			h.awake(fn)
		}
	})
}

// awake runs fn once the host is not paused, if it still lives the same life.
func (h *Host) awake(fn func()) {
	if left := h.thaw - h.net.at; left > 0 {
		h.After(left, fn)
		return
	}
	fn()
}

// Partition cuts every pair for which cut is true, in both directions; nil heals.
func (n *Network) Partition(cut func(i, j int) bool) { n.cut = cut }

// Call is a request with its answer.
type Call struct {
	Purpose Purpose // what it counts for in Network.Sent
	// Size of the request in bytes.
	Size int
	// Timeout from the sending on.
	Timeout time.Duration
	// Handle runs at the receiver, which calls reply at most once, now or later, with the size of
	// the answer.
	Handle func(reply func(size int, answer any))
	// Done runs at the sender, once: with the answer, ErrTimeout or ErrRefused.
	Done func(answer any, err error)
}

// Call sends a request from one host to another; a nil target refuses.
func (n *Network) Call(from, to *Host, c *Call) {
	n.count(c.Purpose, c.Size, 1)
	life, open := from.life, true
	finish := func(delay time.Duration, answer any, err error) {
		n.After(delay, func() {
			if open && from.life == life {
				open = false
				from.awake(func() { c.Done(answer, err) })
			}
		})
	}
	if to == nil {
		finish(0, nil, ErrRefused)
		return
	}
	finish(c.Timeout, nil, ErrTimeout)
	if n.lost(from.Index, to.Index) || !n.reaches(from.Index, to.Index) {
		return
	}
	way := n.Internet.RTT(from.Index, to.Index) / 2
	n.After(way, func() {
		if !to.up {
			if !to.silent {
				finish(way, nil, ErrRefused)
			}
			return
		}
		to.awake(func() {
			c.Handle(func(size int, answer any) {
				n.count(c.Purpose, size, 0)
				if !n.lost(to.Index, from.Index) {
					finish(way, answer, nil)
				}
			})
		})
	})
}

func (n *Network) count(p Purpose, size int, calls int64) {
	n.Sent[p].Bytes += int64(size)
	n.Sent[p].Calls += calls
}

func (n *Network) lost(i, j int) bool {
	return n.cut != nil && n.cut(i, j) || n.Loss > 0 && n.rnd.Float64() < n.Loss
}

// lineFor is how long a connection lasts on which nothing is sent.
const lineFor = time.Minute

// behindNAT says whether a host cannot be dialled.
func (n *Network) behindNAT(i int) bool { return n.NAT != nil && n.NAT(i) }

// reaches says whether what i sends can arrive at j, and notes the connection that it makes.
func (n *Network) reaches(i, j int) bool {
	if n.behindNAT(i) {
		n.lines[[2]int{i, j}] = n.at
	}
	if !n.behindNAT(j) {
		return true
	}
	last, ok := n.lines[[2]int{j, i}]
	return ok && n.at-last < lineFor
}
