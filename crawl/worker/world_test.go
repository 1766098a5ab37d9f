package worker

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
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
)

// world is a worker with everything around it: one or more small owners, content owners, an
// archive, and sites served from memory.
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
	x.cfg = DefaultConfig(8)
	x.cfg.Sessions.Incarnation, x.cfg.Agent, x.cfg.Pages.Processors = 1, "apoidea", 2
	x.cfg.Politeness = frontier.Config{Delay: lab, Factor: -1}
	listener := newPipeListener()
	x.listener = listener
	server := &http.Server{Handler: http.HandlerFunc(x.serve)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	fetcher, err := fetch.New(fetch.Config{
		UserAgent: "apoidea/test", AllowPrivate: true, Resolver: resolver{}, MaxBody: testMaxBody,
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
	if held, queued := len(x.worker.Held()), x.worker.visits.Frontier().Hosts(); queued > held {
		x.t.Errorf("%d hosts have a queue and %d a lease", queued, held)
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
	for _, owner := range slices.Sorted(maps.Keys(offers)) {
		slices.Sort(offers[owner]) // the order of a map would make a test of shares depend on chance
		x.worker.Offer(owner, offers[owner])
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
	if m.GetSeq() == 0 {
		pause = 0 // a renewal waits for nobody
	}
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

// testClock is the lease clock of a test: the bubble's time, and jumps.
type testClock struct {
	start time.Time
	jump  atomic.Int64
}

func (c *testClock) Now() time.Duration { return time.Since(c.start) + time.Duration(c.jump.Load()) }
