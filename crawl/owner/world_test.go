package owner_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// epochStart is when the made-up worlds begin.
var epochStart = time.UnixMilli(1_700_000_000_000)

// jobTable is what a peer knows of jobs.
type jobTable map[job.ID]*jobEntry

type jobEntry struct {
	spec    *job.Spec
	state   job.State
	refresh job.Refresh
}

func (t jobTable) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	e := t[id]
	if e == nil {
		return nil, job.Standing{}, false
	}
	return e.spec, job.Standing{State: e.state, Version: 1, Refresh: e.refresh}, true
}

func (t jobTable) add(tb testing.TB, m *wire.JobSpec) job.ID {
	tb.Helper()
	if m.Id == nil {
		m.Id = fmt.Appendf(nil, "job number %05d", len(t))
	}
	spec, err := job.FromWire(m)
	if err != nil {
		tb.Fatal(err)
	}
	t[spec.ID] = &jobEntry{spec: spec, state: job.StateRunning}
	return spec.ID
}

// filter is a Seen whose every eighth negative is Maybe.
type filter struct {
	owner **owner.Owner
	sets  map[owner.SetID]map[uint64]bool
}

func (f *filter) set(id owner.SetID) map[uint64]bool {
	set := f.sets[id]
	if set == nil {
		set = make(map[uint64]bool)
		f.sets[id] = set
		_ = (*f.owner).Hashes(id, func(hash uint64) bool {
			set[hash] = true
			return true
		})
	}
	return set
}

func (f *filter) Test(id owner.SetID, hash uint64) (bool, error) {
	return f.set(id)[hash] || hash%8 == 0, nil
}

func (f *filter) Add(id owner.SetID, hash uint64) error {
	f.set(id)[hash] = true
	return nil
}

func (f *filter) Drop(id owner.SetID) { delete(f.sets, id) }

// share is the ring of a test: peer i of n owns the hosts whose position is i modulo n.
type share struct{ i, n int }

func (s share) Mine(key ring.Key) bool { return int(key[31])%s.n == s.i }

func everything() share { return share{0, 1} }

// peer is an owner with its store, and what it takes to start it again.
type peer struct {
	t     testing.TB
	name  string
	cfg   owner.Config
	ring  owner.Ring
	jobs  jobTable
	store *crawltest.Store
	copy  *crawltest.Store // what a follower has
	owner *owner.Owner
	check bool // whether steps are checked, see checkDue

	unchecked int // steps since the last check
}

func (p *peer) checkAll() {
	p.t.Helper()
	if err := ownertest.Check(p.owner); err != nil {
		p.t.Fatal(err)
	}
	p.checkCopy()
}

// fullOnly skips a test that takes over ten seconds of processor time in the default tier.
func fullOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}

// checkedRecords is the number of records per step since the last check up to which a step is
// checked.
const checkedRecords = 32

// checkDue reports whether the step that just ended is checked. A check reads every record, so in
// the default tier its frequency falls with the number of records.
func (p *peer) checkDue() bool {
	p.unchecked++
	if !p.check || os.Getenv("APOIDEA_FULL") == "" && p.unchecked*checkedRecords < p.copy.Len() {
		return false
	}
	p.unchecked = 0
	return true
}

func newPeer(t testing.TB, cfg owner.Config, ring owner.Ring, jobs jobTable, now time.Time) *peer {
	p := &peer{t: t, name: cfg.Self, cfg: cfg, ring: ring, jobs: jobs, store: crawltest.NewStore(), check: true}
	p.open(now)
	t.Cleanup(func() {
		if p.check && !t.Failed() {
			p.checkAll()
		}
	})
	return p
}

func (p *peer) open(now time.Time) {
	p.t.Helper()
	seen := &filter{owner: &p.owner, sets: make(map[owner.SetID]map[uint64]bool)}
	p.copy = crawltest.NewStore()
	p.copy.Forgetful = true
	p.copied(func(key, value []byte) {
		p.copy.Update(func(b kv.Batch) { b.Set(key, value) })
	})
	o, err := owner.New(p.cfg, p.shipped(), seen, p.jobs, p.ring, now)
	if err != nil {
		p.t.Fatal(err)
	}
	p.owner = o
}

// shipped is a store whose changes a follower hears of.
type shipped struct {
	*crawltest.Store
	copy *crawltest.Store
}

func (p *peer) shipped() shipped { return shipped{p.store, p.copy} }

// Update implements kv.Store.
func (s shipped) Update(fn func(kv.Batch)) (wait func() error, err error) {
	return s.Store.Update(func(b kv.Batch) {
		s.copy.Update(func(copied kv.Batch) { fn(both{b, copied}) })
	})
}

// both tells a follower what is written.
type both struct{ own, copied kv.Batch }

func (b both) Set(key, value []byte) {
	b.own.Set(key, value)
	if k, v, ok := ondisk.Copied(key, value); ok && key[0] == 'h' {
		b.copied.Set(k, v)
	}
}

func (b both) Delete(key []byte) {
	b.own.Delete(key)
	if k, _, ok := ondisk.Copied(key, nil); ok && key[0] == 'h' {
		b.copied.Delete(k)
	}
}

func (b both) DeleteRange(lo, hi []byte) {
	b.own.DeleteRange(lo, hi)
	if lo[0] == 'h' {
		b.copied.DeleteRange(lo, hi)
	}
}

// copied calls fn for what a follower is to have.
func (p *peer) copied(fn func(key, value []byte)) {
	p.t.Helper()
	if err := p.store.Scan([]byte{'h'}, []byte{'h' + 1}, func(key, value []byte) bool {
		v, ok, err := ondisk.CopiedRecord(key, value, p.store.Get)
		if err != nil {
			p.t.Fatal(err)
		}
		if ok {
			fn(key, v)
		}
		return true
	}); err != nil {
		p.t.Fatal(err)
	}
}

// checkCopy compares what the follower was told with what it is to have, and both have a record for
// each URL.
func (p *peer) checkCopy() {
	p.t.Helper()
	n := 0
	p.copied(func(key, value []byte) {
		n++
		if got, _, _ := p.copy.Get(key); !bytes.Equal(got, value) {
			p.t.Fatalf("%s: a follower has %q under %q, which is %q", p.name, got, key, value)
		}
	})
	if n != p.copy.Len() {
		p.t.Fatalf("%s: a follower has %d records for %d", p.name, p.copy.Len(), n)
	}
}

func (p *peer) crash(now time.Time, rng *rand.Rand) {
	p.t.Helper()
	p.store = p.store.Crash(rng)
	p.open(now)
}

// step makes one step and waits for the disk.
func (p *peer) step(now time.Time, fn func(o *owner.Owner)) owner.Ready {
	p.t.Helper()
	ready := p.stepNoWait(now, fn)
	if err := ready.Wait(); err != nil {
		p.t.Fatal(err)
	}
	return ready
}

func (p *peer) stepNoWait(now time.Time, fn func(o *owner.Owner)) owner.Ready {
	p.t.Helper()
	p.owner.Begin(now)
	if fn != nil {
		fn(p.owner)
	}
	ready, err := p.owner.Commit()
	if err != nil {
		p.t.Fatal(err)
	}
	if p.checkDue() {
		p.checkAll()
	}
	return ready
}

// links is a batch of page links of one job.
func links(id job.ID, depth uint32, urls ...string) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{id[:]}}
	for _, url := range urls {
		m.Url = append(m.Url, []byte(url))
		m.Job = append(m.Job, 0)
		m.Depth = append(m.Depth, depth)
	}
	return m
}

// site is a made-up web: what a URL answers follows from its text and the number of the try.
type site struct {
	hosts, pages, links int
	flaky               bool // some answer 500 at first
}

func pick(text string, n int) int {
	h := fnv.New64a()
	h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return int(x % uint64(n))
}

func (s site) url(host, page int) string { return fmt.Sprintf("http://h%d.example/p%d", host, page) }

// answer is what fetching a URL for the n-th time gives.
func (s site) answer(id job.ID, url string, try uint32) *wire.Fetched {
	f := &wire.Fetched{Job: id[:], Url: []byte(url), Outcome: uint32(link.OutcomeOK), Status: 200, Size: uint64(100 + pick(url+"size", 900)), DurationMs: 10}
	switch kind := pick(url+"kind", 20); {
	case kind == 0:
		f.Outcome, f.Status = uint32(link.OutcomeHTTPError), 404
	case kind == 1:
		f.Outcome, f.Status = uint32(link.OutcomeRedirect), 302
		f.Links = [][]byte{[]byte(s.target(url, 0))}
	case kind == 2 && s.flaky && try == 0:
		f.Outcome, f.Status = uint32(link.OutcomeHTTPError), 500
	default:
		for i := range s.links {
			f.Links = append(f.Links, []byte(s.target(url, i)))
		}
		f.LeftOut = uint32(pick(url+"left", 3)) // small
		if kind == 3 {
			f.Outcome = uint32(link.OutcomeDuplicate)
		}
	}
	return f
}

func (s site) target(url string, i int) string {
	text := fmt.Sprint(url, "link", i)
	host := pick(text+"host", s.hosts)
	if pick(text+"local", 2) == 0 {
		_, _ = fmt.Sscanf(url, "http://h%d.", &host)
	}
	return s.url(host, pick(text+"page", s.pages))
}

// reach is the naive model: every URL that a crawl with a depth limit meets, with its smallest
// depth, if some pages cannot be had.
func (s site) reach(id job.ID, seeds []string, maxDepth uint32, lost map[string]bool) map[string]uint32 {
	depth := make(map[string]uint32)
	var visit func(url string, d uint32)
	visit = func(url string, d uint32) {
		if at, ok := depth[url]; ok && at <= d || d > maxDepth {
			return
		}
		depth[url] = d
		f := s.answer(id, url, 1)
		if lost[url] {
			return
		}
		for _, to := range f.GetLinks() {
			if link.Outcome(f.GetOutcome()) == link.OutcomeRedirect {
				visit(string(to), d)
			} else {
				visit(string(to), d+1)
			}
		}
	}
	for _, seed := range seeds {
		visit(seed, 0)
	}
	return depth
}

// found reads what peers have done.
func found(t testing.TB, id job.ID, peers ...*peer) map[string]owner.Final {
	t.Helper()
	all := make(map[string]owner.Final)
	for _, p := range peers {
		var cursor owner.Cursor
		for {
			next, err := p.owner.URLs(cursor, 37, func(of job.ID, f *owner.Final) {
				if of != id {
					return
				}
				if _, twice := all[f.URL]; twice {
					t.Errorf("%s is known twice", f.URL)
				}
				all[f.URL] = *f
			})
			if err != nil {
				t.Fatal(err)
			}
			if cursor = next; next == nil {
				break
			}
		}
	}
	return all
}

// quarantined are the URLs on which three leases lapsed: the price of many faults.
func quarantined(got map[string]owner.Final) map[string]bool {
	lost := make(map[string]bool)
	for url, f := range got {
		if f.Outcome == link.OutcomeQuarantined {
			lost[url] = true
		}
	}
	return lost
}

// compare checks what a crawl with a depth limit found: no URL beyond the limit, none at a smaller
// depth than the naive model has, and all links of each page whose depth allows them. The depth of
// a page is that of its fetch, so pages at the limit differ between runs.
func (s site) compare(t testing.TB, id job.ID, got map[string]owner.Final, seeds []string, maxDepth uint32) {
	t.Helper()
	lost := quarantined(got)
	want := s.reach(id, seeds, maxDepth, lost)
	for url, f := range got {
		if depth, ok := want[url]; !ok || f.Depth < depth {
			t.Errorf("%s (%v, depth %d): the smallest depth is %d, reachable %v", url, f.Outcome, f.Depth, depth, ok)
		}
		answer := s.answer(id, url, 1)
		d := f.Depth
		if link.Outcome(answer.GetOutcome()) != link.OutcomeRedirect {
			d++
		}
		if d > maxDepth || lost[url] {
			continue
		}
		for _, to := range answer.GetLinks() {
			if _, ok := got[string(to)]; !ok {
				t.Errorf("%s is missing: a link of %s at depth %d", to, url, f.Depth)
			}
		}
	}
	for _, seed := range seeds {
		if _, ok := got[seed]; !ok {
			t.Errorf("the seed %s is missing", seed)
		}
	}
}

// hostLease is what a worker believes.
type hostLease struct {
	epoch *wire.Epoch
	until time.Time // it writes no request after
	queue []task
	more  bool
	gone  bool // given back: from the moment it says so it sends nothing
}

type task struct {
	job      job.ID
	url      string
	depth    uint32
	hops     uint8
	kind     uint8
	tries    uint32
	maxBytes uint64
}

// workerSim is a worker of all peers.
type workerSim struct {
	name        string
	incarnation uint64
	capacity    uint32
	links       map[*peer]*workerLink
}

type workerLink struct {
	seq, ack uint64
	spoke    time.Time
	leases   map[string]*hostLease
	offers   []string
	reports  map[string]*wire.HostWork // not acknowledged yet
}

func newWorker(name string) *workerSim {
	return &workerSim{name: name, incarnation: 1, capacity: 10_000, links: make(map[*peer]*workerLink)}
}

func (w *workerSim) link(p *peer) *workerLink {
	l := w.links[p]
	if l == nil {
		l = &workerLink{leases: make(map[string]*hostLease), reports: make(map[string]*wire.HostWork)}
		w.links[p] = l
	}
	return l
}

func (w *workerSim) crash() {
	w.incarnation++
	w.links = make(map[*peer]*workerLink)
}

func (l *workerLink) report(host string, epoch *wire.Epoch) *wire.HostWork {
	r := l.reports[host]
	if r == nil {
		r = &wire.HostWork{Host: host, Epoch: epoch}
		l.reports[host] = r
	}
	return r
}

// session builds what the worker says now.
func (w *workerSim) session(p *peer, want uint32) *wire.Session {
	l := w.link(p)
	l.seq++
	m := &wire.Session{Incarnation: w.incarnation, Capacity: w.capacity, Seq: l.seq, Ack: l.ack}
	done := make(map[string]bool)
	for _, host := range sortedKeys(l.leases) {
		lease := l.leases[host]
		m.Held = append(m.Held, &wire.HostLease{Host: host, Epoch: lease.epoch})
		work := &wire.HostWork{Host: host, Epoch: lease.epoch}
		if r := l.reports[host]; r != nil {
			work.Fetched = r.Fetched
		}
		switch {
		case len(lease.queue) == 0 && !lease.more:
			work.Release, work.OwedMs = true, 50
			lease.gone = true
		case len(lease.queue) == 0:
			work.Want = want
		}
		m.Hosts = append(m.Hosts, work)
		done[host] = true
	}
	for _, host := range sortedKeys(l.reports) {
		if !done[host] {
			m.Hosts = append(m.Hosts, l.reports[host])
			done[host] = true
		}
	}
	for _, host := range l.offers {
		if !done[host] && !w.holds(host) {
			m.Hosts = append(m.Hosts, &wire.HostWork{Host: host, Want: want})
			done[host] = true
		}
	}
	l.offers = nil
	return m
}

// holds says whether a worker has a lease on a host from any owner: then it declines offers.
func (w *workerSim) holds(host string) bool {
	for _, l := range w.links {
		if l.leases[host] != nil {
			return true
		}
	}
	return false
}

// receive takes the answer to a session that was sent at a time. What has moved goes to whom route
// names.
func (w *workerSim) receive(p *peer, sent time.Time, m *wire.Session, reply *wire.SessionReply, route func(host string) *peer) {
	l := w.link(p)
	l.ack = m.GetSeq()
	refused := slices.Concat(reply.GetRefused(), reply.GetMoved())
	until := sent.Add(time.Duration(reply.GetTtlMs()) * time.Millisecond * 3 / 4)
	for _, work := range m.GetHosts() {
		host := work.GetHost()
		if !slices.Contains(refused, host) && len(work.GetFetched()) > 0 {
			delete(l.reports, host)
		}
		if work.GetRelease() && !slices.Contains(refused, host) {
			delete(l.leases, host)
		}
	}
	asIs := slices.Concat(reply.GetMoved(), reply.GetNotRenewed())
	for host, lease := range l.leases {
		if !slices.Contains(asIs, host) {
			lease.until = until
		}
	}
	for _, host := range reply.GetRevoked() {
		delete(l.leases, host)
	}
	for _, host := range reply.GetMoved() {
		w.reroute(l, w.link(route(host)), host)
	}
	for _, g := range reply.GetGrants() {
		lease := l.leases[g.GetHost()]
		if lease == nil {
			lease = &hostLease{epoch: g.GetEpoch(), until: until}
			l.leases[g.GetHost()] = lease
		}
		lease.epoch, lease.more = g.GetEpoch(), g.GetMore()
		for i, url := range g.GetUrl() {
			lease.queue = append(lease.queue, task{
				job.ID(g.GetJobIds()[g.GetJob()[i]]), string(url), g.GetDepth()[i], g.GetHops()[i], g.GetKind()[i],
				uint32(g.GetTries()[i]), g.GetMaxBytes()[i],
			})
		}
	}
}

// reroute has lease and reports of a host go to another owner.
func (w *workerSim) reroute(from, to *workerLink, host string) {
	if lease := from.leases[host]; lease != nil {
		to.leases[host] = lease
	}
	if r := from.reports[host]; r != nil {
		all := to.report(host, r.GetEpoch())
		all.Fetched = append(all.Fetched, r.GetFetched()...)
	}
	delete(from.leases, host)
	delete(from.reports, host)
}

// fetch works on one URL of a host and notes the outcome for the next session.
func (w *workerSim) fetch(p *peer, host string, now time.Time, answer func(task) *wire.Fetched) {
	l := w.link(p)
	lease := l.leases[host]
	next := lease.queue[0]
	lease.queue = lease.queue[1:]
	f := answer(next)
	f.Depth, f.Hops, f.Kind, f.FetchedMs = next.depth, uint32(next.hops), uint32(next.kind), now.UnixMilli()
	if link.Outcome(f.GetOutcome()).Fetched() {
		f.RecordId = fmt.Appendf(nil, "%08x%08x", pick(next.url, 1<<30), now.UnixMilli()&0xffffffff)[:16]
	}
	r := l.report(host, lease.epoch)
	r.Fetched = append(r.Fetched, f)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
