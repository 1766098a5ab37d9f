package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

// maxMembers limits a walk: a larger ring is malicious or never closes.
const maxMembers = 100_000

// answerTime is the timeout for one member of a walk.
const answerTime = 5 * time.Second

// walker walks the ring along the successors and collects the report of each member.
type walker struct {
	self peer.ID
	// start returns the first and last peer of a walk: this peer, if it is a member.
	start  func() peer.ID
	report func(ctx context.Context, of peer.ID, patience time.Duration) (*report, error)
	// patience is the wait limit beyond which a member counts URLs as deferred; 0: none.
	patience time.Duration
	// known returns likely members in ring order, which are prefetched. Nil: none.
	known func() []peer.ID
	// met records the addresses of a peer.
	met func(id peer.ID, addrs []string)
	// roundTrip returns the round trip time to a peer, 0 if unknown.
	roundTrip func(id peer.ID) time.Duration
}

// report is the report of a member in a walk.
type report struct {
	control.Member
	// Taken counts, by job, what the member received from others since its start.
	Taken map[string]uint64 `json:"taken,omitempty"`
}

// walk walks the ring once. The result reports whether the ring is consistent; if not, or if a
// member did not respond, Error is the reason and Members are those found so far.
func (w *walker) walk(ctx context.Context) (*control.Ring, error) {
	r, _, err := w.round(ctx)
	if r != nil {
		withoutMembers(r.Members)
	}
	return r, err
}

// withoutMembers removes members from the attached workers of others: a peer is a worker until it
// is confirmed reachable, and stays attached for some time.
func withoutMembers(members []control.Member) {
	ring := make(map[string]bool, len(members))
	for i := range members {
		ring[members[i].Peer] = true
	}
	for i := range members {
		members[i].Attached = slices.DeleteFunc(members[i].Attached, func(id string) bool { return ring[id] })
	}
}

// round is a walk that also returns the Taken counts of each member.
func (w *walker) round(ctx context.Context) (*control.Ring, []map[string]uint64, error) {
	r := new(control.Ring)
	var taken []map[string]uint64
	start := w.start()
	next := start
	seen := make(map[peer.ID]bool)
	ask, end := w.ahead(ctx)
	defer end()
	for !seen[next] && len(r.Members) < maxMembers {
		seen[next] = true
		m, err := ask(next)
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			r.Error = fmt.Sprintf("peer %s did not respond: %s", next, silence(err))
			return r, taken, nil
		}
		r.Members = append(r.Members, m.Member)
		taken = append(taken, m.Taken)
		id, err := peer.Decode(m.Successor)
		if err != nil {
			r.Error = fmt.Sprintf("peer %s reports no valid successor", next)
			return r, taken, nil
		}
		w.met(id, m.SuccessorAddrs)
		w.metWorkers(&m.Member)
		next = id
	}
	if next != start {
		r.Error = fmt.Sprintf("the walk returned to %s instead of its start", next)
		return r, taken, nil
	}
	r.Error = gap(r.Members)
	r.Closed = r.Error == ""
	return r, taken, nil
}

// aheadAtOnce limits concurrent requests, aheadMost the members that are prefetched: their
// responses stay in memory.
const (
	aheadAtOnce = 16
	aheadMost   = 1024
)

// ahead prefetches the reports of known members and returns a function that returns the report of
// one member. The condition on two consecutive walks does not depend on the order of requests, if
// one walk ends before the next begins. End cancels unused requests.
func (w *walker) ahead(ctx context.Context) (ask func(id peer.ID) (*report, error), end func()) {
	type answer struct {
		m    *report
		err  error
		come chan struct{}
	}
	inner, cancel := context.WithCancel(ctx)
	answers := make(map[peer.ID]*answer)
	var asked errgroup.Group
	if w.known != nil {
		known := w.known()
		known = known[:min(len(known), aheadMost)]
		for _, id := range known {
			answers[id] = &answer{come: make(chan struct{})}
		}
		asked.Go(func() error {
			var some errgroup.Group
			some.SetLimit(aheadAtOnce)
			for _, id := range known {
				some.Go(func() error {
					a := answers[id]
					defer close(a.come)
					a.m, a.err = w.ask(inner, id)
					return nil
				})
			}
			return some.Wait()
		})
	}
	return func(id peer.ID) (*report, error) {
			a := answers[id]
			if a == nil {
				return w.ask(ctx, id)
			}
			<-a.come // it has a timeout
			return a.m, a.err
		}, func() {
			cancel()
			_ = asked.Wait() // the walk has handled its errors
		}
}

// silence returns why a member did not respond, without its name.
func silence(err error) string {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, calls.ErrUnreachable) {
		return fmt.Sprintf("timeout after %v: stopped, overloaded or unreachable", answerTime)
	}
	return calls.Cause(err).Error()
}

func (w *walker) ask(ctx context.Context, id peer.ID) (*report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	m, err := w.report(ctx, id, w.patience)
	for calls.CodeOf(err) == calls.CodeBusy && loop.Sleep(ctx, reportEvery) == nil { // it is alive
		m, err = w.report(ctx, id, w.patience)
	}
	if err != nil {
		return nil, err
	}
	if id != w.self && w.roundTrip != nil {
		m.RTTMs = float64(w.roundTrip(id).Microseconds()) / 1000
	}
	return m, nil
}

// maxAttached limits the workers of one member whose addresses are recorded: more than a member
// accepts, for other versions.
const maxAttached = 64

// metWorkers records the relay addresses of a member's workers.
func (w *walker) metWorkers(m *control.Member) {
	for _, name := range m.Attached[:min(len(m.Attached), maxAttached)] {
		if addrs := m.AttachedAddrs[name]; len(addrs) > 0 {
			if id, err := peer.Decode(name); err == nil {
				w.met(id, addrs)
			}
		}
	}
}

// gap returns why the ring is not consistent, empty if it is: each arc must span from the
// predecessor's position to the member's own.
func gap(members []control.Member) string {
	for i, m := range members {
		prev := members[(i+len(members)-1)%len(members)]
		switch {
		case m.State == StateJoining || m.State == StateLeaving:
			return fmt.Sprintf("peer %s is %s", m.Peer, m.State)
		case m.Moving:
			return fmt.Sprintf("handoff in progress at peer %s", m.Peer)
		case m.Ring.Arc[0] != prev.Position || m.Ring.Arc[1] != m.Position:
			return fmt.Sprintf("the arc of %s begins at %.8s, its predecessor is at %.8s", m.Peer, m.Ring.Arc[0], prev.Position)
		}
	}
	return ""
}

// sum returns the sum of the members' counters.
func sum(members []control.Member) control.Counters {
	var c control.Counters
	for i := range members {
		c.Add(&members[i].Counters)
	}
	return c
}

// quiet reports whether no member has outstanding work of the given job, or of any if it is empty,
// except deferred URLs. It also returns a signature, which must be equal in two walks for the ring
// to be idle: members, incarnations, arcs, accepted URLs and Taken counts.
func quiet(members []control.Member, taken []map[string]uint64, of string) (signature []string, idle bool) {
	idle = true
	for i := range members {
		m := &members[i]
		var line strings.Builder
		fmt.Fprintf(&line, "%s %d %s %s %d", m.Peer, m.Incarnation, m.Ring.Arc[0], m.Ring.Arc[1], takenFor(taken[i], of))
		jobs := slices.Clone(m.Jobs)
		slices.SortFunc(jobs, func(a, b control.JobCounts) int { return compareText(a.Job, b.Job) })
		for _, j := range jobs {
			if of != "" && j.Job != of {
				continue
			}
			fmt.Fprintf(&line, " %s:%d:%d", j.Job, j.Accepted, j.Done)
			idle = idle && j.Due() == 0
		}
		if of == "" {
			idle = idle && m.Due() == 0
		}
		signature = append(signature, line.String())
	}
	return signature, idle
}

// takenFor returns the Taken count of a job, or of all jobs, plus the moved hosts.
func takenFor(counts map[string]uint64, of string) (n uint64) {
	moves := job.ID{}.String()
	for id, k := range counts {
		if of == "" || id == of || id == moves {
			n += k
		}
	}
	return n
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// The interval of walks in a wait: short at first, so that a small crawl ends at once, then longer.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 2 * time.Second
)

// waitIdle walks the ring until two consecutive walks found it consistent, unchanged and without
// outstanding work (design, section 4, Idle), or with deferred URLs only. A link in transit stays
// in the sender's outbox until the receiver has it on disk, so a URL is counted at one end or both.
// A URL that moves from a member not yet visited to one visited changes the Taken count of the
// receiver.
func (w *walker) waitIdle(ctx context.Context, of string, fn func(control.Progress) error) error {
	begin := time.Now()
	lasting := lasting{patience: w.patience, since: begin}
	pace := waitFirst
	var last []string
	for {
		r, taken, err := w.round(ctx)
		if err != nil {
			return err
		}
		signature, idle := quiet(r.Members, taken, of)
		idle = idle && r.Closed
		p := control.Progress{Counters: sum(r.Members), Members: len(r.Members), ElapseS: time.Since(begin).Seconds(), Note: r.Error, Waits: allWaits(r.Members)}
		if of != "" {
			p.Counters = ofJob(p.Counters, r.Members, of)
		}
		p.Idle = idle && slices.Equal(last, signature)
		w.patience = lasting.left(&p.Counters, time.Now())
		if err := fn(p); err != nil || p.Idle {
			return err
		}
		last = nil
		if idle {
			last = signature
			continue // the second walk follows immediately
		}
		if err := loop.Sleep(ctx, pace); err != nil {
			return err
		}
		pace = min(pace*3/2, waitMost)
	}
}

// ofJob replaces the counters with those of a job.
func ofJob(c control.Counters, members []control.Member, of string) control.Counters {
	var j control.JobCounts
	for i := range members {
		for k := range members[i].Jobs {
			if members[i].Jobs[k].Job == of {
				j.Add(&members[i].Jobs[k])
			}
		}
	}
	t := control.Counters{Refetched: c.Refetched, LinksCut: c.LinksCut, HostsOwned: c.HostsOwned, HostsLeased: c.HostsLeased}
	t.AddJob(&j)
	t.LinksLeftOut = c.LinksLeftOut
	return t
}

// encodeReport and decodeReport use the JSON of status for reports between peers: requests are
// rare, and fields are only added, as peers of different versions require.
func encodeReport(m *report) ([]byte, error) { return json.Marshal(m) }

// maxReport limits the size of a member's report.
const maxReport = 1 << 20

func decodeReport(raw []byte, from peer.ID) (*report, error) {
	if len(raw) > maxReport {
		return nil, fmt.Errorf("report of %d bytes exceeds %d", len(raw), maxReport)
	}
	m := new(report)
	if err := unpack(raw, m); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if m.Peer != from.String() {
		return nil, errors.New("report: names another peer")
	}
	return m, nil
}

// binaryAddrs converts textual multiaddrs to binary form and skips invalid ones.
func binaryAddrs(texts []string) [][]byte {
	var out [][]byte
	for _, t := range texts {
		if a, err := ma.NewMultiaddr(t); err == nil {
			out = append(out, a.Bytes())
		}
	}
	return out
}
