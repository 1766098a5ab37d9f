package view

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

// maxMembers bounds a walk: a ring that seems larger is one that lies or never closes.
const maxMembers = 100_000

// answerTime bounds the question to one member of a walk.
const answerTime = 5 * time.Second

// walker goes round the ring along the successors and collects what every member says of itself.
type walker struct {
	self peer.ID
	// start is where the walk begins and ends: this peer, if it is one of the ring.
	start  func() peer.ID
	report func(ctx context.Context, of peer.ID, patience time.Duration) (*report, error)
	// patience is how far away a next try may be before the member is to count it as put off; 0: as
	// far as it likes.
	patience time.Duration
	// known are members that are likely to be met, in the order of the ring: they are asked ahead of
	// the walk. Nil: none.
	known func() []peer.ID
	// met tells the network where a peer can be reached.
	met func(id peer.ID, addrs []string)
	// roundTrip is that to a peer that answered, 0 if it is not known.
	roundTrip func(id peer.ID) time.Duration
}

// report is what a member says of itself in a walk.
type report struct {
	control.Member
	// Taken counts, by job, what the member took in from others since its start.
	Taken map[string]uint64 `json:"taken,omitempty"`
}

// walk goes round once. The ring it returns says whether the arcs of its members tile the whole
// circle; where they do not, or a member did not answer, Error says why and the members met so far
// are there.
func (w *walker) walk(ctx context.Context) (*control.Ring, error) {
	r, _, err := w.round(ctx)
	if r != nil {
		withoutMembers(r.Members)
	}
	return r, err
}

// withoutMembers takes members off the workers that others have attached: until a peer is found to
// be reachable it works as one, and those that it attached to drop it only later.
func withoutMembers(members []control.Member) {
	ring := make(map[string]bool, len(members))
	for i := range members {
		ring[members[i].Peer] = true
	}
	for i := range members {
		members[i].Attached = slices.DeleteFunc(members[i].Attached, func(id string) bool { return ring[id] })
	}
}

// round is a walk that also returns what each member took in.
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
			r.Error = fmt.Sprintf("peer %s did not answer: %s", next, silence(err))
			return r, taken, nil
		}
		r.Members = append(r.Members, m.Member)
		taken = append(taken, m.Taken)
		id, err := peer.Decode(m.Successor)
		if err != nil {
			r.Error = fmt.Sprintf("peer %s names no successor", next)
			return r, taken, nil
		}
		w.met(id, m.SuccessorAddrs)
		w.metWorkers(&m.Member)
		next = id
	}
	if next != start {
		r.Error = fmt.Sprintf("the walk came back to %s instead of its start", next)
		return r, taken, nil
	}
	r.Error = gap(r.Members)
	r.Closed = r.Error == ""
	return r, taken, nil
}

// aheadAtOnce bounds the members that are asked at the same time, aheadMost those that are asked
// ahead of a walk: it keeps their answers.
const (
	aheadAtOnce = 16
	aheadMost   = 1024
)

// ahead asks the members that are known, some at a time, and returns what asks one for the walk: it
// waits for the answer if that member was asked. What must hold of two walks in a row does not
// depend on the order in which members are asked, if one walk ends before the next begins. End ends
// the questions that nobody waits for.
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
			<-a.come // it has a bound
			return a.m, a.err
		}, func() {
			cancel()
			_ = asked.Wait() // the walk has the errors that it met
		}
}

// silence says why a member did not answer: the line names it already.
func silence(err error) string {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, calls.ErrUnreachable) {
		return fmt.Sprintf("nothing came in %v: it is stopped or has too much to do, or the way to it is cut", answerTime)
	}
	return calls.Cause(err).Error()
}

func (w *walker) ask(ctx context.Context, id peer.ID) (*report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	m, err := w.report(ctx, id, w.patience)
	for calls.CodeOf(err) == calls.CodeBusy && loop.Sleep(ctx, reportEvery) == nil { // it lives, and has answered others just now
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

// maxAttached workers of one member are noted with their addresses: as many as a member takes, and
// some more for other versions.
const maxAttached = 64

// metWorkers tells the network where a member's workers are relayed to.
func (w *walker) metWorkers(m *control.Member) {
	for _, name := range m.Attached[:min(len(m.Attached), maxAttached)] {
		if addrs := m.AttachedAddrs[name]; len(addrs) > 0 {
			if id, err := peer.Decode(name); err == nil {
				w.met(id, addrs)
			}
		}
	}
}

// gap says why the members' arcs do not tile the circle, empty if they do: each serves from its
// predecessor's position to its own.
func gap(members []control.Member) string {
	for i, m := range members {
		prev := members[(i+len(members)-1)%len(members)]
		switch {
		case m.State == StateJoining || m.State == StateLeaving:
			return fmt.Sprintf("peer %s is %s", m.Peer, m.State)
		case m.Moving:
			return fmt.Sprintf("records are on their way to or from peer %s", m.Peer)
		case m.Ring.Arc[0] != prev.Position || m.Ring.Arc[1] != m.Position:
			return fmt.Sprintf("the arc of %s begins at %.8s, but its predecessor sits at %.8s", m.Peer, m.Ring.Arc[0], prev.Position)
		}
	}
	return ""
}

// sum adds up the members' counters.
func sum(members []control.Member) control.Counters {
	var c control.Counters
	for i := range members {
		c.Add(&members[i].Counters)
	}
	return c
}

// quiet says whether no member has outstanding work of the given job, or of any when it is empty,
// but what is put off, and returns what must not change between two walks for the ring to be idle:
// who was met, in which incarnation, with which arc, how many URLs each has ever accepted, and what
// each took in.
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

// takenFor adds up what a member took in for a job, or for all of them, and the hosts that came or
// went.
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

// The pace of a wait for idleness: quick at first, so that a small crawl ends at once, then such
// that walks cost little.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 2 * time.Second
)

// waitIdle walks the ring again and again until two walks in a row found it closed, unchanged and
// without outstanding work (design, section 4, Idle), or with none but URLs whose next try is
// further away than the patience. Links on their way are in the outbox of whoever sent them until
// the receiver has them on disk, so a URL is counted at one end or at both; one that moves from
// where the walk is still to come to where it has been is told by what the receiver took in.
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
			continue // the second walk follows at once
		}
		if err := loop.Sleep(ctx, pace); err != nil {
			return err
		}
		pace = min(pace*3/2, waitMost)
	}
}

// ofJob replaces the counters that a job has of its own.
func ofJob(c control.Counters, members []control.Member, of string) control.Counters {
	var j control.JobCounts
	for i := range members {
		for k := range members[i].Jobs {
			if members[i].Jobs[k].Job == of {
				j.Add(&members[i].Jobs[k])
			}
		}
	}
	c.Pages, c.Duplicates, c.Redirects = j.Outcomes["ok"], j.Outcomes["duplicate"], j.Outcomes["redirect"]
	c.RobotsDenied = j.Outcomes["robots_denied"]
	c.Traps, c.OutOfBudget = j.Outcomes["trap"], j.Outcomes["out_of_budget"]
	c.Errors = 0
	for name, n := range j.Outcomes {
		if IsError(name) {
			c.Errors += n
		}
	}
	c.Bytes, c.URLsSeen, c.URLsPending, c.URLsLeased = j.Bytes, j.Accepted, j.Pending, j.Leased
	c.URLsWaiting, c.NextRetryS, c.Outbox = j.Waiting, j.NextRetryS, j.Outbox
	c.URLsPutOff, c.HostsPutOff = j.PutOff, j.PutOffHosts
	return c
}

// IsError says whether an outcome counts as an error in status.
func IsError(outcome string) bool {
	switch outcome {
	case "ok", "duplicate", "redirect", "robots_denied", "out_of_scope", "out_of_budget", "trap", "none":
		return false
	default:
		return true
	}
}

// encodeReport and decodeReport carry a report between peers as the JSON that status prints: it is
// asked rarely, and its contract that fields are only ever added is the one that peers of different
// versions need.
func encodeReport(m *report) ([]byte, error) { return json.Marshal(m) }

// maxReport bounds a member's report.
const maxReport = 1 << 20

func decodeReport(raw []byte, from peer.ID) (*report, error) {
	if len(raw) > maxReport {
		return nil, fmt.Errorf("report of %d bytes: at most %d are read", len(raw), maxReport)
	}
	m := new(report)
	if err := unpack(raw, m); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if m.Peer != from.String() {
		return nil, errors.New("report: it names another peer")
	}
	return m, nil
}

// binaryAddrs turns multiaddrs of text into the bytes that the network keeps; what does not parse
// is left out.
func binaryAddrs(texts []string) [][]byte {
	var out [][]byte
	for _, t := range texts {
		if a, err := ma.NewMultiaddr(t); err == nil {
			out = append(out, a.Bytes())
		}
	}
	return out
}
