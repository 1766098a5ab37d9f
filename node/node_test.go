package node

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/storage/warc"
)

// TestMain runs more tests at once than there are processors: real peers mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && !testing.Short() {
		_ = flag.Set("test.parallel", "8") // a valid number
	}
	os.Exit(m.Run())
}

// testWeb is a synthetic web on a loopback port.
type testWeb struct {
	*webgen.Web
	port int
}

func serveWeb(t *testing.T, change func(*webgen.Config)) *testWeb {
	t.Helper()
	cfg := webgen.DefaultConfig()
	cfg.Hosts, cfg.PagesPerHost, cfg.Links, cfg.PageBytes = 6, 40, 20, 4000
	cfg.SlowLatency = 50 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &testWeb{Web: webgen.New(cfg), port: ln.Addr().(*net.TCPAddr).Port}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := w.Serve(ctx, ln); err != nil {
			t.Errorf("web: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		served.Wait()
	})
	return w
}

// testPeer is a peer that runs.
type testPeer struct {
	*Node
	stop func() error // ends it and returns what Run returned
}

// startPeer runs a peer with its data in dir until the test ends or it is stopped.
func startPeer(t *testing.T, dir string, number int, entries ...string) *testPeer {
	t.Helper()
	return startWith(t, testConfig(dir, number, entries...))
}

func testConfig(dir string, number int, entries ...string) Config {
	cfg := DefaultConfig(dir, ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Bootstrap, cfg.Network = true, 0, entries, "test"
	cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 1, byte(number)}) // a small number
	cfg.LeaseTTL = 2 * time.Second
	return cfg
}

func startWith(t *testing.T, cfg Config) *testPeer {
	t.Helper()
	return startLogged(t, cfg, slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

func startLogged(t *testing.T, cfg Config, log *slog.Logger) *testPeer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n, err := New(ctx, cfg, log)
	if err != nil {
		cancel()
		t.Fatalf("peer in %s: %v", cfg.DataDir, err)
	}
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	p := &testPeer{Node: n, stop: sync.OnceValue(func() error {
		cancel()
		if err := <-ran; !errors.Is(err, ErrStopped) {
			return err
		}
		return nil
	})}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("peer in %s: %v", cfg.DataDir, err)
		}
	})
	return p
}

// testLog passes log lines on to the test's own log.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// startRing runs n peers and returns when they form one closed ring.
func startRing(t *testing.T, n int) []*testPeer {
	t.Helper()
	dir := t.TempDir()
	peers := []*testPeer{startPeer(t, filepath.Join(dir, "peer1"), 1)}
	for i := 2; i <= n; i++ {
		peers = append(peers, startPeer(t, filepath.Join(dir, fmt.Sprint("peer", i)), i, peers[0].ring.net.Addrs()[0]))
	}
	settle(t, peers)
	return peers
}

// fullOnly skips a test in the default tier: it takes seconds, see "Slow:" in its comment.
func fullOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}

var quietLog = slog.New(slog.DiscardHandler)

// patience bounds every wait of these tests: far more than is needed, so that only a hang meets it.
const patience = 5 * time.Minute

func settle(t *testing.T, peers []*testPeer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		r, err := peers[0].Ring(ctx)
		if err == nil && r.Closed && len(r.Members) == len(peers) {
			return
		}
		if err := loop.Sleep(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("no closed ring of %d: %+v, %v", len(peers), r, err)
		}
	}
}

// crawlAll posts a job at a peer and waits until the ring is idle.
func crawlAll(t *testing.T, p *testPeer, spec control.JobSpec) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := p.Post(ctx, spec); err != nil {
		t.Fatalf("post: %v", err)
	}
	waitIdle(t, p)
}

func waitIdle(t *testing.T, p *testPeer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last control.Progress
	err := p.Wait(ctx, "", -1, func(pr control.Progress) error {
		last = pr
		return nil
	})
	if err != nil {
		t.Fatalf("wait: %v; last progress %+v", err, last)
	}
}

// allURLs are the fates of the ring's URLs.
func allURLs(ctx context.Context, r control.Results) (lines []control.URLLine, err error) {
	found, err := r.Archives(ctx, true)
	if err != nil {
		return nil, err
	}
	for _, of := range found.Peers {
		for after, more := "", of.Role == inspect.RoleRing; more; more = after != "" {
			page, err := r.URLs(ctx, of.Peer, after)
			if err != nil {
				return nil, err
			}
			lines, after = append(lines, page.URLs...), page.After
		}
	}
	return lines, nil
}

// fetchedURLs are the URLs that the ring has as ok or duplicate, sorted.
func fetchedURLs(t *testing.T, p *testPeer) []string {
	t.Helper()
	var urls []string
	lines, err := allURLs(t.Context(), p)
	if err != nil {
		t.Fatalf("export urls: %v", err)
	}
	for _, l := range lines {
		if (l.Outcome == "ok" || l.Outcome == "duplicate" || l.Outcome == "noindex") && !strings.Contains(l.URL, "/sitemap") {
			urls = append(urls, l.URL)
		}
	}
	slices.Sort(urls)
	return urls
}

func diff(t *testing.T, got, want []string) {
	t.Helper()
	contains(t, "missing", got, want)
	contains(t, "too much", want, got)
}

// contains reports each of part that is not in the sorted list whole.
func contains(t *testing.T, otherwise string, whole, part []string) {
	t.Helper()
	for _, u := range part {
		if _, ok := slices.BinarySearch(whole, u); !ok {
			t.Errorf("%s: %s", otherwise, u)
		}
	}
}

// checkAudit holds what the web saw against what always holds: one worker at a host at a time,
// robots obeyed, no URL twice. A process that stood still for more than a second drops its leases:
// the request that was under way under each is broken off and made again, so many may be made twice
// where workers of these peers had that.
func checkAudit(t *testing.T, w *testWeb, peers ...*testPeer) webgen.Audit {
	t.Helper()
	a := w.Audit()
	dropped := int64(0)
	for _, p := range peers {
		dropped += p.crawl.Worker.Stats().Lapsed
	}
	again := dropped
	for _, h := range a.Hosts {
		if h.Overlaps+h.SelfOverlaps > 0 {
			t.Errorf("host %s: %d overlaps of workers, %d of one", h.Host, h.Overlaps, h.SelfOverlaps)
		}
		if h.RobotsViolations > 0 {
			t.Errorf("host %s: %d robots violations", h.Host, h.RobotsViolations)
		}
		if again -= h.RepeatedURLs; again < 0 && h.RepeatedURLs > 0 {
			t.Errorf("host %s: %d URLs asked for again after a final answer; %d leases were dropped", h.Host, h.RepeatedURLs, dropped)
		}
	}
	return a
}

// TestCoverage: one peer and several crawl exactly what a right crawl comes to, and with a depth
// limit all links of the seeds and nothing beyond the limit; status agrees with what the web
// counted.
func TestCoverage(t *testing.T) {
	for _, peers := range []int{1, 4} {
		for _, depth := range []int{-1, 3} {
			t.Run(fmt.Sprintf("%d peers, depth %d", peers, depth), func(t *testing.T) {
				t.Parallel()
				web := serveWeb(t, nil)
				// Nobody dies here, and no lease is to lapse on a busy machine, or pages would be
				// fetched again, as they should.
				ring := ringOf(t, peers, func(_ int, c *Config) { c.LeaseTTL = 30 * time.Second })
				spec := control.JobSpec{URLs: web.Seeds(web.port)[:2], Scope: []string{"*.web.localhost"}}
				if depth >= 0 {
					d := uint32(depth) // small
					spec.MaxDepth = &d
				}
				crawlAll(t, ring[0], spec)
				walk := webtruth.Walk{Port: web.port, Seeds: []int{0, 1}, Everywhere: true, MaxDepth: depth}
				truth, got := webtruth.Of(web, walk), fetchedURLs(t, ring[len(ring)-1])
				if depth < 0 {
					diff(t, got, truth.URLs)
				} else {
					contains(t, "too deep", truth.URLs, got)
					walk.MaxDepth = 1
					truth = webtruth.Of(web, walk)
					contains(t, "missing", got, truth.URLs)
				}
				checkAudit(t, web, ring...)
				s, err := ring[0].Status(t.Context(), true)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Pages + s.Duplicates + s.NoIndex; got < int64(len(truth.URLs)) {
					t.Errorf("status: %d pages and duplicates, want at least %d", got, len(truth.URLs))
				}
				if s.URLsPending+s.URLsLeased+s.Outbox != 0 || s.Refetched != 0 {
					t.Errorf("status of an idle ring: %+v", s.Counters)
				}
				checkArchives(t, ring, s)
			})
		}
	}
}

// checkArchives reads the archives of all peers, verifying digests: every page has its record,
// every distinct body one response. On a busy machine an owner may answer too late, and the body is
// taken for new; or a lease is dropped, as checkAudit describes. The workers count both, and each
// may cost one more copy.
func checkArchives(t *testing.T, ring []*testPeer, s *control.Status) {
	t.Helper()
	var pages, revisits int64
	bodies := make(map[string]int)
	var allowed, assumed int64
	for _, p := range ring {
		if err := p.stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		stats := p.crawl.Worker.Stats()
		allowed += stats.Assumed + stats.Lapsed
		assumed += stats.Assumed
		files, err := warc.Files(p.archiveDir(), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := eachRecord(f, func(r *warc.Record) {
				switch {
				case r.Type == warc.TypeRevisit:
					revisits++
				case r.Type == warc.TypeResponse:
					head, _ := r.HTTPHead()
					if strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
						pages++
						bodies[r.Get("WARC-Payload-Digest")]++
					}
				}
			}); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	if pages+revisits < s.Pages+s.Duplicates-int64(len(bodies)) || pages == 0 {
		t.Errorf("archives hold %d pages and %d revisits, status says %d and %d", pages, revisits, s.Pages, s.Duplicates)
	}
	if assumed > int64(len(bodies))/10 {
		t.Errorf("%d of %d bodies were taken for new without an answer, want at most a tenth", assumed, len(bodies))
	}
	for digest, n := range bodies {
		if allowed -= int64(n - 1); n > 1 && allowed < 0 {
			t.Errorf("body %s is stored %d times, and %d copies more than late answers and dropped leases explain", digest, n, -allowed)
		}
	}
}

// TestStopAndGoOn: a peer that is stopped in the middle of a crawl goes on where it was, and
// posting the same again continues the job.
func TestStopAndGoOn(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) { c.Latency = 5 * time.Millisecond })
	dir := t.TempDir()
	spec := control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}, Continue: true}
	p := startPeer(t, dir, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := p.Post(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	for {
		s, err := p.Status(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		if s.Pages > 20 {
			break
		}
		if err := loop.Sleep(ctx, 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	before := p
	p = startPeer(t, dir, 1)
	again, err := p.Post(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Continued || again.ID != first.ID {
		t.Errorf("the same job posted again: %s, continued %v; want %s continued", again.ID, again.Continued, first.ID)
	}
	waitIdle(t, p)
	truth := webtruth.Of(web, webtruth.Walk{Port: web.port, Everywhere: true, MaxDepth: -1})
	diff(t, fetchedURLs(t, p), truth.URLs)
	checkAudit(t, web, before, p)
}

// TestPeersJoinWhileCrawling: hosts move to the peers that come, and nothing is lost or fetched by
// two at once.
//
// Slow: four peers start one after another while a web is crawled.
func TestPeersJoinWhileCrawling(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) { c.Hosts, c.Latency = 10, 20*time.Millisecond })
	ring := startRing(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := ring[0].Post(ctx, control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := 2; i <= 4; i++ {
		ring = append(ring, startPeer(t, filepath.Join(dir, fmt.Sprint("peer", i)), i, ring[0].ring.net.Addrs()[0]))
	}
	waitIdle(t, ring[0])
	settle(t, ring)
	waitIdle(t, ring[0])
	truth := webtruth.Of(web, webtruth.Walk{Port: web.port, Everywhere: true, MaxDepth: -1})
	diff(t, fetchedURLs(t, ring[0]), truth.URLs)
	for _, h := range web.Audit().Hosts {
		if h.Overlaps+h.SelfOverlaps+h.RobotsViolations > 0 {
			t.Errorf("host %s: %d overlaps, %d self-overlaps, %d robots violations", h.Host, h.Overlaps, h.SelfOverlaps, h.RobotsViolations)
		}
	}
}

// TestBudget: max-pages is never overshot, and reached, by one peer and by several.
func TestBudget(t *testing.T) {
	for _, peers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d peers", peers), func(t *testing.T) {
			t.Parallel()
			web := serveWeb(t, func(c *webgen.Config) { c.SitemapShare, c.ErrorShare = 0, 0 })
			ring := startRing(t, peers)
			crawlAll(t, ring[0], control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}, MaxPages: 50})
			if n := len(fetchedURLs(t, ring[0])); n != 50 {
				t.Errorf("%d pages fetched, want exactly 50", n)
			}
		})
	}
}

// eachRecord reads a WARC file, verifying digests.
func eachRecord(path string, fn func(*warc.Record)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := warc.NewReader(f, true)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fn(rec)
		if err := rec.Skip(); err != nil {
			return err
		}
	}
}

// TestLeaveAlone: who asks the only peer to leave hears that nobody took anything; it ends in good
// order.
func TestLeaveAlone(t *testing.T) {
	t.Parallel()
	p := startRing(t, 1)[0]
	if err := p.Leave(t.Context()); !errors.Is(err, errNobody) {
		t.Errorf("leave says %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// TestLeave: a peer that leaves hands its hosts over: the others know all it knew. It answers until
// then: whoever asked it to leave hears when that is done, and whoever watches it what went where.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestLeave(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	ring := startRing(t, 3)
	crawlAll(t, ring[0], control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}})
	before := fetchedURLs(t, ring[0])
	members, err := ring[0].Ring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	most := slices.MaxFunc(members.Members, func(a, b control.Member) int { return cmp.Compare(a.HostsOwned, b.HostsOwned) }).Peer
	i := slices.IndexFunc(ring, func(p *testPeer) bool { return p.ring.net.Self().String() == most })
	leaver, rest := ring[i], slices.Delete(slices.Clone(ring), i, i+1)
	cl := control.NewClient(leaver.cfg.APIAddr())
	defer cl.Close()
	said := listen(t, cl, leaver)
	if err := cl.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !leaver.keeping.Clean() {
		t.Error("it says that it has left, and something of it is still to be handed over")
	}
	if lines := said(); !slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "handed ") && strings.Contains(s, " host") }) {
		t.Errorf("who watches hears %q and nothing of hosts handed over", lines)
	}
	if err := leaver.stop(); err != nil {
		t.Fatalf("leave: %v", err)
	}
	settle(t, rest)
	diff(t, fetchedURLs(t, rest[0]), before)
}

// listen watches a peer from outside. What it returns waits for the end of that, and says what was
// heard.
func listen(t *testing.T, cl *control.Client, p *testPeer) (said func() []string) {
	t.Helper()
	var lines []string
	ended, begun := make(chan error, 1), make(chan struct{})
	go func() {
		first := sync.OnceFunc(func() { close(begun) })
		ended <- cl.Watch(t.Context(), func(e control.RingEvent) error {
			first()
			lines = append(lines, e.Text)
			return nil
		})
	}()
	until(t, "somebody listens", func(context.Context) bool {
		p.watchers.Tell(control.RingEvent{Text: "heard"})
		select {
		case <-begun:
			return true
		default:
			return false
		}
	})
	return func() []string {
		t.Helper()
		if err := <-ended; err != nil {
			t.Errorf("watch: %v", err)
		}
		return lines
	}
}

// TestSeenBloom: the paper's filter alone crawls this small web whole, and says what share it is
// expected to lose of a larger one.
func TestSeenBloom(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	cfg := DefaultConfig(t.TempDir(), ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Seen, cfg.Duplicates = true, 0, "bloom", "drop"
	p := startWith(t, cfg)
	crawlAll(t, p, control.JobSpec{URLs: web.Seeds(web.port), Scope: []string{"*.web.localhost"}})
	s, err := p.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pages == 0 || s.SeenLoss <= 0 || s.SeenLoss > 1e-6 {
		t.Errorf("%d pages, expected loss %g; want pages, and a loss that is tiny and not zero", s.Pages, s.SeenLoss)
	}
	checkAudit(t, web, p)
}

// TestNewFailsCleanly: what New opened before it failed is closed again.
func TestNewFailsCleanly(t *testing.T) {
	cfg := DefaultConfig(t.TempDir(), ProfileLab)
	cfg.Listen = []string{"/ip4/192.0.2.1/tcp/1"} // an address that is nobody's
	log := slog.New(slog.DiscardHandler)
	if _, err := New(t.Context(), cfg, log); err == nil {
		t.Fatal("New listens on an address that this machine does not have")
	}
	cfg.Listen = nil
	n, err := New(t.Context(), cfg, log)
	if err != nil {
		t.Fatalf("New in the directory of one that failed: %v", err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

// TestConfigNamesTheField: each wrong value is refused with its field and itself.
func TestConfigNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"data-dir":   func(c *Config) { c.DataDir = "" },
		"network":    func(c *Config) { c.Network = "a b" },
		"profile":    func(c *Config) { c.Profile = "home" },
		"placement":  func(c *Config) { c.Placement = "nearest" },
		"archive":    func(c *Config) { c.Archive = "zip" },
		"duplicates": func(c *Config) { c.Duplicates = "keep" },
		"seen":       func(c *Config) { c.Seen = "all" },
		"fetchers":   func(c *Config) { c.Fetchers = 0 },
		"delay":      func(c *Config) { c.Delay = time.Millisecond },
		"max-body":   func(c *Config) { c.MaxBody = 1 },
		"lease-ttl":  func(c *Config) { c.LeaseTTL = 0 },
		"contact":    func(c *Config) { c.Contact = "me" },
	} {
		c := DefaultConfig("dir", ProfileLab)
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("wrong %s: %v, want an error that begins with it", field, err)
		}
	}
	public := DefaultConfig("dir", ProfilePublic)
	if err := public.Validate(); control.KindOf(err) != control.KindRefused {
		t.Errorf("public without contact: %v, want a refusal", err)
	}
}
