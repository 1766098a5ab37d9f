package dhtsim

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Errors of calls.
var (
	ErrTimeout = errors.New("no answer in time")
	ErrRefused = errors.New("connection refused")
)

// Purpose is the reason for traffic. Simulations beyond the ring define their own, from Others on.
type Purpose uint8

// The purposes of the ring.
const (
	// Upkeep is ring maintenance: stabilize, searches for the own position, probes of suspects.
	Upkeep Purpose = iota
	// Lookups are searches for owners.
	Lookups
	// Others is the first purpose outside the ring.
	Others
)

// maxPurposes is the maximum number of purposes.
const maxPurposes = 16

// Sent is the traffic by purpose.
type Sent [maxPurposes]Traffic

// Internet gives the round-trip time between hosts i and j, numbered from 0 without limit. It is
// positive.
type Internet interface {
	RTT(i, j int) time.Duration
}

// Pairs is an Internet with a round-trip time of 20 to 60 ms for each pair, drawn from the seed.
type Pairs uint64

// RTT implements Internet.
func (p Pairs) RTT(i, j int) time.Duration {
	rnd := rand.New(rand.NewPCG(uint64(p)+uint64(min(i, j)), uint64(max(i, j)))) // not negative
	return 20*time.Millisecond + time.Duration(rnd.IntN(40))*time.Millisecond
}

// Traffic counts calls and bytes, including answers.
type Traffic struct {
	Calls, Bytes int64 // Bytes includes the answers
}

// Network carries calls between hosts. It is not safe for concurrent use.
type Network struct {
	*Clock
	Internet Internet // round-trip times
	// Loss is the fraction of lost messages, in each direction.
	Loss float64
	// NAT reports whether a host cannot be dialed: messages to it arrive only if it sent something to
	// the sender in the last minute (an open connection). nil: none.
	NAT func(i int) bool
	// Sent is the traffic so far.
	Sent Sent

	rnd   *rand.Rand
	cut   func(i, j int) bool
	lines map[[2]int]time.Duration // time of the last message from a host that cannot be dialed to another
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
	silent bool          // while down, it drops messages instead of refusing them
	life   uint64        // grows with each start and end; events of an earlier life are dropped
	thaw   time.Duration // it is paused until then
}

// NewHost returns a host that is down.
func (n *Network) NewHost(index int) *Host { return &Host{Index: index, net: n} }

// Up reports whether the host is running.
func (h *Host) Up() bool { return h.up }

// Life returns a number that is unique among the host's lives.
func (h *Host) Life() uint64 { return h.life }

// Start starts the host.
func (h *Host) Start() { h.up, h.thaw = true, 0; h.life++ }

// Stop ends the host like kill -9. A silent one refuses no connections, like a machine without
// power.
func (h *Host) Stop(silent bool) { h.up, h.silent = false, silent; h.life++ }

// Pause suspends the host for d, like SIGSTOP: it neither acts nor answers, and messages wait.
func (h *Host) Pause(d time.Duration) { h.thaw = h.net.Elapsed() + d }

// Paused reports whether the host is suspended now.
func (h *Host) Paused() bool { return h.thaw > h.net.Elapsed() }

// After schedules fn after a delay unless the host ends before; a paused host runs it on
// resumption.
func (h *Host) After(delay time.Duration, fn func()) {
	life := h.life
	h.net.After(delay, func() {
		if h.life == life {
			h.awake(fn)
		}
	})
}

// awake runs fn once the host is not paused, if it is still in the same life.
func (h *Host) awake(fn func()) {
	if left := h.thaw - h.net.Elapsed(); left > 0 {
		h.After(left, fn)
		return
	}
	fn()
}

// Partition cuts every pair for which cut returns true, in both directions; nil heals it.
func (n *Network) Partition(cut func(i, j int) bool) { n.cut = cut }

// Call is a request with its answer.
type Call struct {
	Purpose Purpose // accounted in Network.Sent
	// Size is the size of the request in bytes.
	Size int
	// Timeout starts when the request is sent.
	Timeout time.Duration
	// Handle runs at the receiver, which calls reply at most once, now or later, with the size of the
	// answer.
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

// lineFor is the lifetime of an idle connection.
const lineFor = time.Minute

// behindNAT reports whether a host cannot be dialed.
func (n *Network) behindNAT(i int) bool { return n.NAT != nil && n.NAT(i) }

// reaches reports whether a message from i can arrive at j, and records the connection that it
// opens.
func (n *Network) reaches(i, j int) bool {
	if n.behindNAT(i) {
		n.lines[[2]int{i, j}] = n.Elapsed()
	}
	if !n.behindNAT(j) {
		return true
	}
	last, ok := n.lines[[2]int{j, i}]
	return ok && n.Elapsed()-last < lineFor
}
