package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// world is a worker with everything around it: one or more small owners, content owners, an archive, and sites served from memory.
type world struct {
	t        testing.TB
	cfg      Config
	deps     Deps
	worker   *Worker
	clock    *testClock
	spec     *job.Spec
	handler  http.Handler
	archive  *testArchive
	content  *testContent
	fetcher  *fetch.Fetcher
	listener *pipeListener
	requests atomic.Int64
	maxBytes uint64 // of each URL that is granted, as under a budget

	mu     sync.Mutex
	owners map[string]*testOwner
	routes map[string]string // who owns a host, if not "owner"
	gaps   map[string]time.Duration
	ends   map[string]time.Time
	open   map[string]int
	lapped int // requests begun while another of the same host was open
	asked  map[string]int
	events map[string]Event
}

// testMaxBody bounds the bodies that the fetcher takes.
const testMaxBody = 4 << 20

const lab = time.Millisecond // as good as no delay, but not a busy loop in virtual time

func newWorld(t testing.TB, handler http.HandlerFunc, seeds []string, change ...func(*world)) *world {
	spec := testSpec(t, seeds, func(*wire.JobSpec) {})
	x := &world{
		t: t, spec: spec, handler: handler, clock: &testClock{start: time.Now()}, archive: &testArchive{}, content: newTestContent(),
		owners: make(map[string]*testOwner), routes: make(map[string]string), gaps: make(map[string]time.Duration),
		ends: make(map[string]time.Time), open: make(map[string]int), asked: make(map[string]int), events: make(map[string]Event),
	}
	x.cfg = Config{
		Incarnation: 1, Agent: "apoidea", Politeness: frontier.Config{Delay: lab, Factor: -1}, Fetchers: 8, Processors: 2,
	}
	listener := newPipeListener()
	x.listener = listener
	server := &http.Server{Handler: http.HandlerFunc(x.serve)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	fetcher, err := fetch.New(fetch.Config{
		UserAgent: "apoidea/test", AllowPrivate: true, Resolver: resolver{}, NoHTTP2: true, MaxBody: testMaxBody,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fetcher.Close()
		server.Close()
		<-served
	})
	x.fetcher = fetcher
	x.deps = Deps{
		Owners: x, Fetch: fetcher, Archive: x.archive, Content: x.content, Jobs: x, Clock: x.clock,
		Events: func(e Event) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.events[e.URL] = e
		},
	}
	for _, fn := range change {
		fn(x)
	}
	x.worker, err = New(x.cfg, x.deps)
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range x.spec.Seeds {
		x.owner(link.Host(url)).add(url, 0, 0, link.KindPage)
	}
	return x
}

func testSpec(t testing.TB, seeds []string, change func(*wire.JobSpec)) *job.Spec {
	m := &wire.JobSpec{Id: []byte("0123456789abcdef")}
	for _, url := range seeds {
		m.Seeds = append(m.Seeds, []byte(url))
	}
	change(m)
	spec, err := job.FromWire(m)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// withSpec changes the job.
func withSpec(change func(*wire.JobSpec)) func(*world) {
	return func(x *world) { x.spec = testSpec(x.t, x.spec.Seeds, change) }
}

// serve is every site: it notes gaps and overlaps, and answers robots.txt with 404 unless the handler wants it.
func (x *world) serve(rw http.ResponseWriter, r *http.Request) {
	x.requests.Add(1)
	now := time.Now()
	x.mu.Lock()
	x.asked["http://"+r.Host+r.URL.RequestURI()]++
	if end, ok := x.ends[r.Host]; ok {
		if gap, had := x.gaps[r.Host]; !had || now.Sub(end) < gap {
			x.gaps[r.Host] = now.Sub(end)
		}
	}
	if x.open[r.Host]++; x.open[r.Host] > 1 {
		x.lapped++
	}
	x.mu.Unlock()
	x.handler.ServeHTTP(rw, r)
	x.mu.Lock()
	x.open[r.Host]--
	x.ends[r.Host] = time.Now()
	x.mu.Unlock()
}

// run runs the worker until done says so, then stops it.
func (x *world) run(done func() bool) error {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- x.worker.Run(ctx) }()
	x.offerAll()
	deadline := time.Now().Add(3 * time.Hour)
	for !done() {
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			cancel()
			<-ended
			x.t.Fatalf("not done after three hours: %s", x.owners["owner"])
		}
	}
	cancel()
	err := <-ended
	if x.worker.frontier.Hosts() > len(x.worker.hosts) {
		x.t.Errorf("%d hosts have a queue and %d a lease", x.worker.frontier.Hosts(), len(x.worker.hosts))
	}
	return err
}

// crawl runs until no owner has anything outstanding.
func (x *world) crawl() {
	x.t.Helper()
	if err := x.run(x.idle); err != nil {
		x.t.Fatalf("Run: %v", err)
	}
}

func (x *world) idle() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.owners {
		if o.outstanding() > 0 {
			return false
		}
	}
	return true
}

func (x *world) owner(host string) *testOwner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownerOf(host)
}

func (x *world) ownerOf(host string) *testOwner {
	name := "owner"
	if other := x.routes[host]; other != "" {
		name = other
	}
	return x.ownerNamed(name)
}

func (x *world) ownerNamed(name string) *testOwner {
	o := x.owners[name]
	if o == nil {
		o = &testOwner{x: x, name: name, ttl: 8 * time.Second, hosts: make(map[string]*testHost)}
		x.owners[name] = o
	}
	return o
}

// offerAll offers every host that has work and no lease.
func (x *world) offerAll() {
	x.mu.Lock()
	offers := make(map[string][]string)
	for _, o := range x.owners {
		for name, h := range o.hosts {
			if len(h.pending) > 0 && h.epoch == 0 && !o.silent && !time.Now().Before(h.notBefore) {
				offers[o.name] = append(offers[o.name], name)
			}
		}
	}
	x.mu.Unlock()
	for owner, hosts := range offers {
		x.worker.Offer(owner, hosts)
	}
}

// Session implements Owners.
func (x *world) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	if err := m.Validate(); err != nil {
		x.t.Errorf("invalid session: %v", err)
		return nil, err
	}
	x.mu.Lock()
	o := x.ownerNamed(owner)
	if o.silent {
		x.mu.Unlock()
		return nil, errors.New("connection refused")
	}
	reply := o.session(m)
	pause := o.pause
	lose := o.loseAnswers > 0
	if lose {
		o.loseAnswers--
	}
	x.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if lose {
		return nil, errors.New("connection broke")
	}
	go x.offerAll()
	return reply, nil
}

// OwnerOf implements Owners.
func (x *world) OwnerOf(host string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownerOf(host).name
}

// Spec implements Jobs.
func (x *world) Spec(_ context.Context, id job.ID) (*job.Spec, error) {
	if id != x.spec.ID {
		return nil, job.ErrUnknown
	}
	return x.spec, nil
}

// testOwner is an owner in a hundred lines: it takes outcomes, keeps what was seen, grants.
type testOwner struct {
	x           *world
	name        string
	ttl         time.Duration
	hosts       map[string]*testHost
	epoch       uint64
	silent      bool // answers nobody
	busy        bool // refuses outcomes
	waiting     bool // says nothing of its hosts yet
	pause       time.Duration
	loseAnswers int
	voided      bool // knows none of its leases any more
	sessions    int
	reported    int
	ack, seq    uint64
}

type testHost struct {
	pending   []testURL
	out       map[string]testURL
	seen      map[string]bool
	done      map[string]*wire.Fetched
	again     int
	epoch     uint64
	by        string // the owner that made it
	robots    map[string][]byte
	addrs     [][]byte
	owed      time.Time
	backoff   uint32
	reason    string
	returned  int
	left      int // out when it was given back
	notBefore time.Time
	moved     bool
	give      bool
	tries     map[string]int
}

type testURL struct {
	url   string
	depth uint32
	hops  uint8
	kind  link.Kind
}

func (o *testOwner) String() string {
	s := fmt.Sprintf("%s after %d sessions:", o.name, o.sessions)
	for name, h := range o.hosts {
		s += fmt.Sprintf(" %s: %d pending, %d out, %d done, epoch %d;", name, len(h.pending), len(h.out), len(h.done), h.epoch)
	}
	return s
}

func (o *testOwner) host(name string) *testHost {
	h := o.hosts[name]
	if h == nil {
		h = &testHost{
			out: make(map[string]testURL), seen: make(map[string]bool), done: make(map[string]*wire.Fetched), robots: make(map[string][]byte),
			tries: make(map[string]int),
		}
		o.hosts[name] = h
	}
	return h
}

func (o *testOwner) add(url string, depth uint32, hops uint8, kind link.Kind) {
	h := o.host(link.Host(url))
	if !h.seen[url] && o.x.spec.AdmitsDepth(depth) && o.x.spec.InScope(link.Host(url)) {
		h.seen[url] = true
		h.pending = append(h.pending, testURL{url, depth, hops, kind})
	}
}

func (o *testOwner) outstanding() (n int) {
	for _, h := range o.hosts {
		n += len(h.pending) + len(h.out)
	}
	return n
}

func (o *testOwner) session(m *wire.Session) *wire.SessionReply {
	o.sessions++
	o.ack, o.seq = m.GetAck(), m.GetSeq()
	reply := &wire.SessionReply{TtlMs: uint32(o.ttl.Milliseconds())}
	if o.voided {
		o.voided = false
		for _, h := range o.hosts {
			o.end(h)
		}
	}
	if o.waiting {
		names := make(map[string]struct{})
		for _, l := range m.GetHeld() {
			names[l.GetHost()] = struct{}{}
		}
		for _, w := range m.GetHosts() {
			names[w.GetHost()] = struct{}{}
		}
		reply.Refused = slices.Sorted(maps.Keys(names))
		reply.NotRenewed = reply.GetRefused()
		return reply
	}
	for _, l := range m.GetHeld() {
		if h := o.host(l.GetHost()); h.moved {
			reply.Moved = append(reply.Moved, l.GetHost())
		} else if h.epoch != l.GetEpoch().GetCounter() {
			reply.Revoked = append(reply.Revoked, l.GetHost())
		}
	}
	for _, w := range m.GetHosts() {
		o.work(w, reply)
	}
	return reply
}

// end puts back what is out under a lease.
func (o *testOwner) end(h *testHost) {
	h.epoch = 0
	for url, u := range h.out {
		delete(h.out, url)
		h.pending = append(h.pending, u)
	}
}

func (o *testOwner) work(w *wire.HostWork, reply *wire.SessionReply) {
	h := o.host(w.GetHost())
	if h.moved {
		reply.Moved = append(reply.Moved, w.GetHost())
		return
	}
	if o.busy && len(w.GetFetched()) > 0 {
		reply.Refused = append(reply.Refused, w.GetHost())
		return
	}
	for _, r := range w.GetRobots() {
		h.robots[r.GetOrigin()] = r.GetState()
	}
	if len(w.GetAddrs()) > 0 {
		h.addrs = w.GetAddrs()
	}
	for _, f := range w.GetFetched() {
		o.report(h, f)
	}
	held := h.epoch != 0 && h.epoch == w.GetEpoch().GetCounter()
	switch {
	case held && w.GetRelease():
		h.owed, h.backoff, h.reason, h.returned = time.Now().Add(time.Duration(w.GetOwedMs())*time.Millisecond), w.GetBackoffMs(), w.GetBackoffReason(), len(w.GetReturned())
		if h.backoff > 0 {
			h.notBefore = time.Now().Add(time.Duration(h.backoff) * time.Millisecond)
			time.AfterFunc(time.Duration(h.backoff)*time.Millisecond, o.x.offerAll)
		}
		h.give, h.left = false, len(h.out)
		o.end(h)
	case w.GetEpoch() == nil && w.GetWant() > 0:
		if h.epoch != 0 {
			o.end(h)
		}
		if len(h.pending) > 0 {
			o.epoch++
			h.epoch, h.by = o.epoch, o.name
			o.grant(w.GetHost(), h, int(w.GetWant()), true, reply)
		}
	case held && w.GetWant() > 0:
		o.grant(w.GetHost(), h, int(w.GetWant()), false, reply)
	case !held && !w.GetRelease():
		reply.Revoked = append(reply.Revoked, w.GetHost())
	}
}

func (o *testOwner) grant(name string, h *testHost, n int, first bool, reply *wire.SessionReply) {
	id := o.x.spec.ID
	g := &wire.Grant{Host: name, Epoch: &wire.Epoch{Counter: h.epoch, Peer: []byte(h.by)}, JobIds: [][]byte{id[:]}, GiveBack: h.give}
	if first {
		g.NotBeforeMs = session.Milliseconds(max(time.Until(h.owed), 0))
		g.Addrs = h.addrs
		for _, origin := range slices.Sorted(maps.Keys(h.robots)) {
			g.Robots = append(g.Robots, &wire.Robots{Origin: origin, State: h.robots[origin]})
		}
	}
	n = min(n, len(h.pending))
	if h.give {
		n = 0
	}
	for _, u := range h.pending[:n] {
		h.out[u.url] = u
		g.Url = append(g.Url, []byte(u.url))
		g.Job = append(g.Job, 0)
		g.Depth = append(g.Depth, u.depth)
		g.Hops = append(g.Hops, u.hops)
		g.Kind = append(g.Kind, byte(u.kind))
		g.Tries = append(g.Tries, 0)
		g.MaxBytes = append(g.MaxBytes, o.x.maxBytes)
	}
	h.pending = slices.Clone(h.pending[n:])
	g.More = len(h.pending) > 0
	reply.Grants = append(reply.Grants, g)
}

// retries of a URL whose outcome is worth another try; they come at once, unless the host has to be left alone.
const retries = 3

func (o *testOwner) report(h *testHost, f *wire.Fetched) {
	url := string(f.GetUrl())
	outcome := link.Outcome(f.GetOutcome())
	if outcome != link.OutcomeNone {
		o.reported++
		if h.done[url] != nil {
			h.again++
		}
		u, out := h.out[url]
		delete(h.out, url)
		h.pending = slices.DeleteFunc(h.pending, func(p testURL) bool { return p.url == url }) // reported under a lease that is over
		if h.tries[url]++; out && outcome.Retryable(int(f.GetStatus())) && h.tries[url] <= retries {
			h.pending = append(h.pending, u)
			return
		}
		h.done[url] = f
	}
	for i, raw := range f.GetLinks() {
		target := string(raw)
		kind := link.KindPage
		if len(f.GetLinkKind()) > 0 {
			kind = link.Kind(f.GetLinkKind()[i])
		}
		depth, hops := f.GetDepth()+1, uint8(0)
		if outcome == link.OutcomeRedirect {
			depth, hops, kind = f.GetDepth(), uint8(f.GetHops())+1, link.Kind(f.GetKind())
		} else if outcome == link.OutcomeNone || kind == link.KindRequisite {
			depth = f.GetDepth()
		}
		if hops > wire.MaxRedirects {
			continue
		}
		o.x.ownerOf(link.Host(target)).add(target, depth, hops, kind)
	}
}

// outcomes counts the URLs of all hosts by outcome.
func (x *world) outcomes() map[link.Outcome]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[link.Outcome]int)
	for _, o := range x.owners {
		for _, h := range o.hosts {
			for _, f := range h.done {
				out[link.Outcome(f.GetOutcome())]++
			}
		}
	}
	return out
}

func (x *world) done(url string) *wire.Fetched {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownerOf(link.Host(url)).host(link.Host(url)).done[url]
}

func (x *world) host(name string) *testHost {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownerOf(name).host(name)
}

// testArchive remembers records, and which of them a Sync covered.
type testArchive struct {
	mu      sync.Mutex
	saved   []pages.Exchange
	synced  int
	syncs   int
	saveErr error
	syncErr error
}

func (a *testArchive) Save(x *pages.Exchange) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.saveErr != nil {
		return "", a.saveErr
	}
	kept := *x
	kept.Body = append([]byte(nil), x.Body...)
	if x.RevisitOf != nil {
		of := *x.RevisitOf
		kept.RevisitOf = &of
	}
	kept.Outlinks = slices.Clone(x.Outlinks)
	kept.RequestHead, kept.ResponseHead = append([]byte(nil), x.RequestHead...), append([]byte(nil), x.ResponseHead...)
	a.saved = append(a.saved, kept)
	return fmt.Sprintf("urn:uuid:00000000-0000-0000-0000-%012x", len(a.saved)), nil
}

func (a *testArchive) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.syncs++
	a.synced = len(a.saved)
	return a.syncErr
}

// testContent is a content owner for all.
type testContent struct {
	mu        sync.Mutex
	claimed   map[[32]byte]string
	confirmed map[[32]byte]reports.Confirmation
	batches   []int
	failing   bool
	deaf      bool // forgets confirmations
}

func newTestContent() *testContent {
	return &testContent{claimed: make(map[[32]byte]string), confirmed: make(map[[32]byte]reports.Confirmation)}
}

func (c *testContent) Claim(_ context.Context, q []pages.Question) ([]pages.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, len(q))
	if c.failing {
		return nil, errors.New("nobody there")
	}
	answers := make([]pages.Answer, len(q))
	for i := range q {
		if k, ok := c.confirmed[q[i].Digest]; ok {
			answers[i] = pages.Answer{Verdict: pages.Known, Original: pages.Original{URL: k.URL, RecordID: k.RecordID, Date: k.Date}}
		} else if by, ok := c.claimed[q[i].Digest]; ok && by != q[i].URL {
			answers[i].Verdict = pages.Wait
		} else {
			c.claimed[q[i].Digest] = q[i].URL
		}
	}
	return answers, nil
}

func (c *testContent) Confirm(_ context.Context, list []reports.Confirmation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range list {
		if !c.deaf {
			c.confirmed[k.Digest] = k
		}
	}
	return nil
}

// testClock is the lease clock of a test: the bubble's time, and jumps.
type testClock struct {
	start time.Time
	jump  atomic.Int64
}

func (c *testClock) Now() time.Duration { return time.Since(c.start) + time.Duration(c.jump.Load()) }

type resolver struct{}

func (resolver) Lookup(_ context.Context, host string) ([]netip.Addr, error) {
	if host == "nowhere.example" {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// pipeListener is a listener in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
