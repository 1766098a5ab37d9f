package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// The states of a peer in a status.
const (
	StateJoining  = "joining"
	StateCrawling = "crawling"
	StateIdle     = "idle"
	StatePaused   = "paused"
	StateLeaving  = "leaving"
)

// StatusService serves walks and requests, see [View.HandleStatus].
func (v *View) StatusService() rpc.Service {
	return rpc.Raw("Status", rpc.Anyone("nothing; two reports per second; requests of untrusted peers are served one at a time"), v.HandleStatus)
}

// HandleStatus serves reports for walks of the ring, and the state of hosts that this peer owns.
func (v *View) HandleStatus(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	verb, arg, _ := strings.Cut(string(raw[:min(len(raw), maxQuestion)]), " ")
	if verb == askReport {
		if err := v.waitForReport(ctx, from); err != nil {
			return nil, err
		}
		if !v.neighbour(from) && !rpc.OfMember(ctx) {
			done, err := v.reportDesk.Turn(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
		}
		return v.answer(ctx, verb, arg)
	}
	return v.serve(ctx, from, func() ([]byte, error) { return v.answer(ctx, verb, arg) })
}

// serve serves a request: of a neighbor on the ring at once, of others at their turn.
func (v *View) serve(ctx context.Context, from peer.ID, answer func() ([]byte, error)) ([]byte, error) {
	if !v.neighbour(from) {
		done, err := v.desk.Turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return answer()
}

// neighbour reports whether a peer is in the leaf set of this one, or is attached to it.
func (v *View) neighbour(id peer.ID) bool {
	preds, succs := v.deps.Ring.DHT.Leaves()
	return id == v.deps.Self || slices.Contains(member.IDs(preds, succs, v.deps.Ring.DHT.Attached()), id)
}

// answer serves one request.
func (v *View) answer(ctx context.Context, verb, arg string) ([]byte, error) {
	switch verb {
	case askReport:
		m, err := v.member(ctx, v.patienceOf(arg), v.deps.Hosts.Ask)
		if err != nil {
			return nil, err
		}
		return encodeReport(m)
	case askHost:
		return answerJSON(v.hostHere(ctx, arg))
	case askWhy:
		return answerJSON(v.whyHere(ctx, arg))
	case askHosts:
		return answerJSON(v.hostsHere(ctx, arg))
	case askURLs:
		return answerJSON(v.urlsHere(ctx, arg))
	default:
		return nil, rpc.Refuse("status: unknown request %.20q", verb)
	}
}

// ServiceStatus is the service for walks of the ring and the state of hosts.
const ServiceStatus = "status"

// The requests of the status service: a verb, a space, and its argument.
const (
	askReport = "report"
	askHost   = "host"
	askWhy    = "why"
	askHosts  = "hosts"
	askURLs   = "urls"

	// maxQuestion limits a request: a verb and a URL, in bytes.
	maxQuestion = 10_000
)

// patienceOf parses the wait limit of a report request, in milliseconds; if missing or invalid, it
// is this peer's.
func (v *View) patienceOf(arg string) time.Duration {
	ms, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || ms < 0 || ms > int64(MaxPatience/time.Millisecond) {
		return v.deps.About.Patience
	}
	return time.Duration(ms) * time.Millisecond
}

// reportOf requests the report of a member, with the URLs deferred by a wait limit; its own without
// the network.
func (v *View) reportOf(ctx context.Context, of peer.ID, patience time.Duration) (*report, error) {
	if of == v.deps.Self {
		return v.member(ctx, patience, v.deps.Hosts.Ask)
	}
	raw, err := v.deps.Ring.Net.Call(ctx, of, ServiceStatus, fmt.Appendf(nil, "%s %d", askReport, patience.Milliseconds()))
	if err != nil {
		return nil, err
	}
	m, err := decodeReport(raw, of)
	if err == nil {
		v.noteName(m.Peer, m.Name)
	}
	return m, err
}

// Question runs fn in the owner's loop: Look or Ask.
type Question func(ctx context.Context, fn func(*owner.Owner)) error

// member returns this peer's report in a walk.
func (v *View) member(ctx context.Context, patience time.Duration, question Question) (*report, error) {
	m := &report{}
	var err error
	if m.Taken, err = v.fill(ctx, &m.Member, patience, question); err != nil {
		return nil, err
	}
	preds, succs := v.deps.Ring.DHT.Leaves()
	next := v.deps.Ring.DHT.Self()
	if len(succs) > 0 {
		next = succs[0]
	}
	m.Successor = next.ID.String()
	m.SuccessorAddrs = v.deps.Ring.Net.AddrsOf(next.ID)
	for _, id := range member.IDs(succs, preds) {
		m.Leaves = append(m.Leaves, id.String())
	}
	for _, p := range v.deps.Ring.DHT.Attached() {
		m.Attached = append(m.Attached, p.ID.String())
		if addrs := v.deps.Ring.Net.RelayedAddrsOf(p.ID); len(addrs) > 0 {
			if m.AttachedAddrs == nil {
				m.AttachedAddrs = make(map[string][]string)
			}
			m.AttachedAddrs[p.ID.String()] = addrs
		}
	}
	return m, nil
}

// fill sets status, job counts and delegations of one moment, with the URLs deferred by a wait
// limit; taken is for the walker. With Ask, all of it is on disk, so that a crash cannot revert the
// report; with Look, it waits for neither disk nor replicas.
func (v *View) fill(ctx context.Context, m *control.Member, patience time.Duration, question Question) (taken map[string]uint64, err error) {
	unsent, err := v.deps.Hosts.Unsent(ctx) // before the owner's counts: URLs sent meanwhile are counted there
	if err != nil {
		return nil, err
	}
	var totals owner.Totals
	var counts map[job.ID]owner.Counts
	var delegated map[string]int
	var waits []owner.Wait
	var putOff map[job.ID]owner.PutOff
	horizon := v.horizon(patience)
	if err := question(ctx, func(o *owner.Owner) {
		taken = v.deps.Hosts.Taken()
		totals = o.Totals()
		counts = o.AllCounts()
		delegated = o.Delegated()
		waits, putOff = o.Waits(horizon)
	}); err != nil {
		return nil, err
	}
	m.Status = v.baseStatus()
	m.Counters, m.Waits = totals, waits
	m.LongestStepMS = float64(v.deps.Hosts.Owners.LongestStep().Microseconds()) / 1000
	for id, left := range unsent {
		m.Outbox += left
		c := counts[id]
		c.Job = id.String()
		c.Outbox += left
		counts[id] = c
	}
	for id, c := range counts {
		c.PutOff, c.PutOffHosts, c.PutOffNextS = putOff[id].URLs, putOff[id].Hosts, putOff[id].NextS
		m.Jobs = append(m.Jobs, c)
		m.NextRetryS = hosts.Sooner(m.NextRetryS, c.NextRetryS)
	}
	for i := range waits {
		m.URLsPutOff += waits[i].PutOff
		m.HostsPutOff += waits[i].HostsPutOff
	}
	if arc, ok := v.deps.Ring.DHT.Arc(); ok {
		m.ArcShare = arc.Fraction()
	}
	m.Delegated = make(map[string]int)
	for worker, n := range delegated {
		m.Delegated[peer.ID(worker).String()] = n
	}
	m.Status.State = v.state(&m.Counters)
	m.Moving = v.deps.Ring.Moving()
	if v.deps.Hosts.SeenLoss != nil {
		if m.SeenLoss, err = v.deps.Hosts.SeenLoss(ctx); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// baseStatus returns a status without counters and state.
func (v *View) baseStatus() control.Status {
	d := v.deps.Ring.DHT
	self := d.Self()
	var standing *control.Admission
	if v.deps.Ring.Admission != nil {
		standing = v.deps.Ring.Admission()
	}
	s := control.Status{
		Peer: self.ID.String(), Name: v.deps.About.Name, Addrs: v.deps.Ring.Net.Addrs(), Version: v.deps.About.Version, Network: v.deps.About.Network, Dashboard: v.deps.About.Page,
		Admission: standing, Time: time.Now(), Reached: string(v.deps.Ring.Net.Reached()),
		UptimeS: time.Since(v.deps.About.Started).Seconds(), Incarnation: v.deps.About.Incarnation, Position: self.Key().Hex(), RSSBytes: machine.Resident(),
		Ring:  control.RingSummary{Members: d.Size(), Stable: d.Stable(), Successors: []string{}},
		Peers: []control.PeerLine{},
	}
	s.Ring.Neighbours = control.NeighboursWord(s.Ring.Stable)
	if h, ok := v.deps.Crawl.Limits.Holding(); ok {
		s.Holding, s.HoldingUntil = h.Why+", until "+h.Ends, h.Until
	}
	w := v.deps.Crawl.Worker.Stats()
	s.OwnPages, s.OwnBytes = w.Pages+w.Duplicates, w.Bytes
	s.OwnRevisits, s.OwnNotModified = w.Revisits, w.NotModified
	if w.Admitted > 0 {
		s.Governor = &control.Governor{Name: v.deps.About.Governor, Admitted: w.Admitted, Passed: w.Passed, Known: w.Known}
	}
	preds, succs := d.Leaves()
	if len(preds) > 0 {
		s.Ring.Predecessor = preds[0].ID.String()
	}
	for _, p := range succs {
		s.Ring.Successors = append(s.Ring.Successors, p.ID.String())
	}
	s.Role = RoleRing
	if d.State() == dht.Worker {
		s.Role = RoleWorker
	}
	if arc, ok := d.Arc(); ok {
		s.Ring.Arc = [2]string{arc.Start.Hex(), arc.End.Hex()}
	}
	return s
}

// state returns the state of the peer.
func (v *View) state(c *control.Counters) string {
	switch {
	case v.deps.Life.Leaving() || v.deps.Ring.DHT.State() == dht.Leaving:
		return StateLeaving
	case v.deps.Ring.DHT.State() != dht.Serving && v.deps.Ring.DHT.State() != dht.Worker:
		return StateJoining
	case v.deps.Crawl.Limits.Paused():
		return StatePaused
	case c.Outstanding() > 0 || v.deps.Crawl.Worker.Backlog() > 0:
		return StateCrawling
	default:
		return StateIdle
	}
}

// Status implements control.Backend.
func (v *View) Status(ctx context.Context, whole bool) (*control.Status, error) {
	m := &control.Member{}
	if _, err := v.fill(ctx, m, v.deps.About.Patience, v.deps.Hosts.Look); err != nil {
		return nil, err
	}
	if !whole {
		m.Status.Peers = v.neighbours()
		return &m.Status, nil
	}
	r, err := v.walker.walk(ctx)
	if err != nil {
		return nil, err
	}
	s := &m.Status
	s.Counters, s.Waits = sum(r.Members), allWaits(r.Members)
	s.Ring.Members, s.Ring.Stable, s.Ring.State, s.Ring.Neighbours = len(r.Members), r.Closed, r.State(), ""
	s.State = ringState(r.Members)
	for i := range r.Members {
		s.Peers = append(s.Peers, lineOf(&r.Members[i]))
	}
	s.Peers = append(s.Peers, v.named(ctx, workersOf(r.Members))...)
	if r.Error != "" {
		s.Holding = r.Error
	}
	return s, nil
}

// ringState is crawling if any member is, else idle if any is, else their common state.
func ringState(members []control.Member) string {
	state := StateIdle
	for i := range members {
		switch members[i].State {
		case StateCrawling:
			return StateCrawling
		case StateIdle:
		default:
			state = members[i].State
		}
	}
	return state
}

// The roles of peers: members of the ring, and workers, which cannot be dialed, own no hosts and
// crawl for members.
const (
	RoleRing   = "ring"
	RoleWorker = "worker"
)

// workersOf returns the workers attached to members, without duplicates.
func workersOf(members []control.Member) (lines []control.PeerLine) {
	seen := make(map[string]bool)
	for i := range members {
		for _, id := range members[i].Attached {
			if !seen[id] {
				seen[id] = true
				line := control.PeerLine{Peer: id, Role: RoleWorker}
				for k := range members {
					line.Leased += int64(members[k].Delegated[id])
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func lineOf(m *control.Member) control.PeerLine {
	p := control.PeerLine{
		Peer: m.Peer, Name: m.Name, RTTMs: m.RTTMs, Role: RoleRing, Pages: m.Pages, State: m.State, Position: m.Position, ArcShare: m.ArcShare,
		Hosts: m.HostsOwned, Leased: m.HostsLeased,
	}
	if len(m.Addrs) > 0 {
		p.Addr = m.Addrs[0]
	}
	return p
}

// Ring implements control.Backend.
func (v *View) Ring(ctx context.Context) (*control.Ring, error) { return v.walker.walk(ctx) }

// Watch implements control.Backend.
func (v *View) Watch(ctx context.Context, fn func(control.RingEvent) error) error {
	return v.deps.Watchers.watch(ctx, func(e control.RingEvent) error {
		switch e.Event {
		case "join":
			e.Name = v.called(ctx, e.Peer)[e.Peer]
		default: // a failed peer does not respond
			e.Name = v.PeerName(e.Peer)
		}
		return fn(e)
	})
}

// neighbours returns the leaf set without network requests.
func (v *View) neighbours() []control.PeerLine {
	preds, succs := v.deps.Ring.DHT.Leaves()
	lines := []control.PeerLine{}
	for _, p := range member.Distinct(succs, preds) {
		lines = append(lines, v.lineOfKnown(p, RoleRing))
	}
	return lines
}

// Attached returns the workers attached to this peer; for a worker, the peers that it is attached
// to. It makes no network request.
func (v *View) Attached() []control.PeerLine {
	peers, role := v.deps.Ring.DHT.Attached(), RoleWorker
	if v.deps.Ring.DHT.State() == dht.Worker {
		peers, role = v.deps.Ring.DHT.Attachments(), RoleRing
	}
	var lines []control.PeerLine
	for _, p := range peers {
		lines = append(lines, v.lineOfKnown(p, role))
	}
	return lines
}

// lineOfKnown returns what is known of a peer without a request.
func (v *View) lineOfKnown(p dht.Peer, role string) control.PeerLine {
	l := control.PeerLine{
		Peer: p.ID.String(), Role: role, Position: p.Key().Hex(),
		RTTMs: float64(v.deps.Ring.Net.RoundTrip(p.ID).Microseconds()) / 1000,
	}
	if addrs := v.deps.Ring.Net.AddrsOf(p.ID); len(addrs) > 0 {
		l.Addr = addrs[0]
	}
	l.Name = v.PeerName(l.Peer)
	l.CoordinateMs, l.CoordinateError = v.deps.Placing.Placer.Distance(p.ID)
	return l
}

// Peers implements control.Backend: the leaf set, with a request to each peer.
func (v *View) Peers(ctx context.Context) ([]control.PeerLine, error) {
	lines := v.neighbours()
	for i := range lines {
		id, err := peer.Decode(lines[i].Peer)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		m, err := v.walker.ask(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			lines[i].Error = "no response"
			continue
		}
		was := lines[i]
		lines[i] = lineOf(&m.Member)
		if ahead, ok := clockAhead(m, begin, time.Now()); ok {
			ms := float64(ahead.Microseconds()) / 1000
			lines[i].ClockMs = &ms
		}
		lines[i].CoordinateMs, lines[i].CoordinateError = was.CoordinateMs, was.CoordinateError
	}
	return v.trusted(ctx, v.refused(lines))
}

// trusted sets the checks of each peer's pages, and adds the other workers that reported pages.
func (v *View) trusted(ctx context.Context, lines []control.PeerLine) ([]control.PeerLine, error) {
	var all map[string]trust.Worker
	if err := v.deps.Hosts.Look(ctx, func(o *owner.Owner) { all = o.Workers() }); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w, text := all[id], peer.ID(id).String()
		at := slices.IndexFunc(lines, func(l control.PeerLine) bool { return l.Peer == text })
		if at < 0 {
			at, lines = len(lines), append(lines, control.PeerLine{Peer: text, Role: RoleWorker, Name: v.PeerName(text)})
		}
		lines[at].Trust = &control.Trust{
			Since: time.Unix(int64(w.Since), 0), Pages: w.Pages, Checked: w.Checked, Agreed: w.Agreed, Unclear: w.Unclear, Lost: w.Lost, //nolint:gosec // a time
		}
	}
	return lines, nil
}

// maxRefused limits the peers that are listed only for rejected requests.
const maxRefused = 20

// refused sets the recently rejected requests of each peer, and adds the peers outside the leaf set
// with the most.
func (v *View) refused(lines []control.PeerLine) []control.PeerLine {
	all := v.deps.Ring.Refused()
	for i := range lines {
		for id, r := range all {
			if id.String() == lines[i].Peer {
				lines[i].Refused = &r
				delete(all, id)
			}
		}
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(all[b].Requests, all[a].Requests), cmp.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), maxRefused)] {
		r := all[id]
		lines = append(lines, control.PeerLine{Peer: id.String(), Role: "untrusted", Refused: &r})
	}
	return lines
}

// secondsSince returns the seconds since at, 0 if at is zero or in the future.
func secondsSince(at, now time.Time) float64 {
	if at.UnixMilli() <= 0 {
		return 0
	}
	return max(now.Sub(at).Seconds(), 0)
}

// due formats the time until at.
func due(at, now time.Time) string {
	if wait := at.Sub(now).Round(100 * time.Millisecond); wait > 0 {
		return fmt.Sprintf("due in %v", wait)
	}
	return "due now"
}

// DefaultPatience is the default wait limit: a wait for the end of a crawl ignores URLs whose next
// try is later. It equals the longest usual backoff, so that temporary failures get all their
// retries.
const DefaultPatience = 10 * time.Minute

// MaxPatience is the maximum wait limit; longer delays requested by sites are ignored.
const MaxPatience = 30 * 24 * time.Hour

// horizon returns the end of the wait limit by the lease clock; 0 is no limit.
func (v *View) horizon(patience time.Duration) time.Time {
	if patience == 0 {
		patience = MaxPatience
	}
	return v.deps.Hosts.Now().Add(patience)
}

// allWaits merges the waits of all members.
func allWaits(members []control.Member) (waits []control.Wait) {
	for i := range members {
		waits = hosts.AddWaits(waits, members[i].Waits)
	}
	return waits
}

// secondsUntil returns the seconds to at; 0 if at is zero, otherwise more than 0.
func secondsUntil(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now).Seconds(), 0.001)
}

const (
	// patienceMore is added to the wait limit while nothing is fetched: the first two backoffs, so
	// that the usual retries of the last page complete.
	patienceMore = 75 * time.Second
	// patienceLeast is the minimum wait, if the wait limit is not less: the delays of politeness
	// alone.
	patienceLeast = 90 * time.Second
)

// lasting is the rest of the wait limit of one wait: sites that repeatedly require a delay just
// below the limit must not extend it for hours.
type lasting struct {
	patience time.Duration
	fetched  int64
	since    time.Time // time of the last fetch
}

// left records the fetch counters and returns the current wait limit. 0 stays unlimited.
func (l *lasting) left(c *control.Counters, now time.Time) time.Duration {
	if fetched := c.Pages + c.Duplicates + c.Redirects; fetched != l.fetched {
		l.fetched, l.since = fetched, now
	}
	return min(l.patience, max(l.patience+patienceMore-now.Sub(l.since), patienceLeast))
}
