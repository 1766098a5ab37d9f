package webgen

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"
	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
)

// client speaks to the listener of a test server whatever the URL's host, from the local address
// source ("" for any).
func client(t *testing.T, srv *httptest.Server, source string) *http.Client {
	t.Helper()
	d := net.Dialer{}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, srv.Listener.Addr().String())
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func portOf(srv *httptest.Server) int { return srv.Listener.Addr().(*net.TCPAddr).Port }

func get(t *testing.T, c *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// walker crawls what is served, knowing nothing of how it was made.
type walker struct {
	t        *testing.T
	c        *http.Client
	robots   map[string]string
	depth    map[string]int
	levels   [][]string
	hosts    map[string]bool
	maxDepth int
	urls     []string
	bodies   map[[32]byte]bool
}

func (k *walker) admit(base, href string, depth int) {
	b, err := url.Parse(base)
	if err != nil {
		k.t.Fatal(err)
	}
	u, err := b.Parse(href)
	if err != nil {
		k.t.Fatalf("link %q on %s: %v", href, base, err)
	}
	u.Fragment, u.Host = "", strings.ToLower(u.Host)
	if !k.hosts[u.Host] || k.maxDepth >= 0 && depth > k.maxDepth {
		return
	}
	if d, known := k.depth[u.String()]; known && d <= depth {
		return
	}
	k.depth[u.String()] = depth
	for len(k.levels) <= depth {
		k.levels = append(k.levels, nil)
	}
	k.levels[depth] = append(k.levels[depth], u.String())
	if _, known := k.robots[u.Host]; known {
		return
	}
	resp, body := get(k.t, k.c, "http://"+u.Host+"/robots.txt")
	if resp.StatusCode != http.StatusOK {
		body = nil
	}
	k.robots[u.Host] = string(body)
	for _, s := range grobotstxt.Sitemaps(string(body)) {
		k.sitemap(s)
	}
}

func (k *walker) sitemap(u string) {
	_, body := get(k.t, k.c, u)
	var doc struct {
		Maps []string `xml:"sitemap>loc"`
		URLs []string `xml:"url>loc"`
	}
	if err := xml.Unmarshal(body, &doc); err != nil {
		k.t.Fatalf("%s: %v", u, err)
	}
	for _, m := range doc.Maps {
		k.sitemap(m)
	}
	for _, p := range doc.URLs {
		k.admit(u, p, 1)
	}
}

func (k *walker) walk() {
	for depth := 0; depth < len(k.levels); depth++ {
		for i := 0; i < len(k.levels[depth]); i++ {
			if u := k.levels[depth][i]; k.depth[u] == depth {
				k.visit(u, depth)
			}
		}
	}
	slices.Sort(k.urls)
}

func (k *walker) visit(u string, depth int) {
	parsed, err := url.Parse(u)
	if err != nil {
		k.t.Fatal(err)
	}
	if !grobotstxt.AgentAllowed(k.robots[parsed.Host], "apoidea", u) {
		return
	}
	resp, body := get(k.t, k.c, u)
	if resp.StatusCode >= 500 {
		resp, body = get(k.t, k.c, u)
	}
	if l := resp.Header.Get("Location"); l != "" {
		k.admit(u, l, depth)
		return
	}
	if resp.StatusCode != http.StatusOK {
		return
	}
	k.urls = append(k.urls, u)
	k.bodies[sha256.Sum256(body)] = true
	if strings.Contains(resp.Header.Get("X-Robots-Tag"), "nofollow") {
		return
	}
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	var hrefs []string
	for n := range doc.Descendants() {
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		switch {
		case n.Data == "meta" && attr["name"] == "robots" && strings.Contains(attr["content"], "nofollow"):
			return
		case n.Data == "a" && attr["rel"] != "nofollow":
			hrefs = append(hrefs, attr["href"])
		}
	}
	for _, h := range hrefs {
		k.admit(u, h, depth+1)
	}
}

func TestTruthIsWhatAWalkerFinds(t *testing.T) {
	unraced(t)
	for _, c := range []struct {
		name string
		cfg  func(*Config)
		walk webtruth.Walk
	}{
		{"everything", func(*Config) {}, webtruth.Walk{MaxDepth: -1}},
		{"one seed, its host only", func(*Config) {}, webtruth.Walk{MaxDepth: -1, Seeds: []int{1}}},
		{"one seed, all hosts", func(*Config) {}, webtruth.Walk{MaxDepth: -1, Seeds: []int{2}, Everywhere: true}},
		{"depth 0", func(*Config) {}, webtruth.Walk{MaxDepth: 0, Seeds: []int{0}}},
		{"depth 2", func(*Config) {}, webtruth.Walk{MaxDepth: 2}},
		{"no sitemaps, many redirects", func(c *Config) { c.SitemapShare, c.RedirectShare = 0, 0.4 }, webtruth.Walk{MaxDepth: 3}},
		{"robots everywhere", func(c *Config) { c.RobotsShare = 1 }, webtruth.Walk{MaxDepth: -1}},
		{"half duplicates", func(c *Config) { c.DuplicateShare = 0.5 }, webtruth.Walk{MaxDepth: -1}},
		{"much nofollow", func(c *Config) { c.NofollowShare = 0.3 }, webtruth.Walk{MaxDepth: -1}},
		{"many errors", func(c *Config) { c.ErrorShare = 0.5 }, webtruth.Walk{MaxDepth: -1}},
		{"hosts of all sizes", func(c *Config) { c.Hosts, c.PagesPerHost, c.Pareto = 60, 12, 1.2 }, webtruth.Walk{MaxDepth: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := smallWeb(5).cfg
			c.cfg(&cfg)
			w := New(cfg)
			srv := httptest.NewServer(w.Handler())
			defer srv.Close()
			c.walk.Port = portOf(srv)
			truth := webtruth.Of(w, c.walk)

			k := &walker{
				t: t, c: client(t, srv, ""), maxDepth: c.walk.MaxDepth,
				robots: map[string]string{}, depth: map[string]int{}, hosts: map[string]bool{}, bodies: map[[32]byte]bool{},
			}
			seeds := w.Seeds(c.walk.Port)
			if len(c.walk.Seeds) > 0 {
				seeds = []string{seeds[c.walk.Seeds[0]]}
			}
			scope := seeds
			if c.walk.Everywhere {
				scope = w.Seeds(c.walk.Port)
			}
			for _, s := range scope {
				u, err := url.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				k.hosts[u.Host] = true
			}
			for _, s := range seeds {
				k.admit(s, s, 0)
			}
			k.walk()

			if !slices.Equal(truth.URLs, k.urls) {
				t.Errorf("truth has %d URLs, the walker found %d", len(truth.URLs), len(k.urls))
				report(t, "only in truth", truth.URLs, k.urls)
				report(t, "only found", k.urls, truth.URLs)
			}
			if truth.Bodies != len(k.bodies) {
				t.Errorf("truth has %d bodies, the walker found %d", truth.Bodies, len(k.bodies))
			}
			a := w.Audit().Totals
			if a.RobotsViolations+a.Trapped+a.RepeatedURLs+a.Overlaps+a.SelfOverlaps != 0 {
				t.Errorf("audit of an orderly walk: %+v", a)
			}
			if len(truth.URLs) == 0 {
				t.Error("nothing to be found")
			}
			if got := a.Statuses[200] - int64(truth.Sitemaps); got != int64(len(truth.URLs)) {
				t.Errorf("audit counts %d pages with 200, truth has %d", got, len(truth.URLs))
			}
		})
	}
}

func report(t *testing.T, what string, in, notIn []string) {
	t.Helper()
	shown := 0
	for _, u := range in {
		if _, found := slices.BinarySearch(notIn, u); !found && shown < 5 {
			t.Log(what, u)
			shown++
		}
	}
}

func TestMostPagesAreWithinReach(t *testing.T) {
	w := New(Config{Seed: 1, Hosts: 2, PagesPerHost: 2000, Links: 20, DuplicateShare: 0.1, RedirectShare: 0.03})
	if got := len(webtruth.Of(w, webtruth.Walk{MaxDepth: -1}).URLs); got < 3600 {
		t.Errorf("%d of 4000 pages can be reached", got)
	}
}

// audited fetches the audit as a stranger would.
func audited(t *testing.T, c *http.Client, srv *httptest.Server) Audit {
	t.Helper()
	_, body := get(t, c, srv.URL+AuditPath)
	var a Audit
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAuditSeesOverlaps keeps the response to one source from ending while another asks.
func TestAuditSeesOverlaps(t *testing.T) {
	for _, c := range []struct {
		name              string
		first, second     string
		overlaps, selfish int64
	}{
		{"two sources", "127.0.0.2", "127.0.0.3", 1, 0},
		{"one source twice", "127.0.0.2", "127.0.0.2", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The first response is larger than what socket buffers hold, so it is still being sent
			// until the client reads it.
			w := New(Config{Seed: 1, Hosts: 1, PagesPerHost: 10, PageBytes: 32 << 20})
			srv := httptest.NewServer(w.Handler())
			defer srv.Close()
			url := w.Seeds(portOf(srv))[0]
			a, b := client(t, srv, c.first), client(t, srv, c.second)
			get(t, a, url+"robots.txt")

			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := a.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			get(t, b, url+"nothing-here")
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()

			h := audited(t, b, srv).Hosts[0]
			if h.Overlaps != c.overlaps || h.SelfOverlaps != c.selfish {
				t.Errorf("overlaps %d, self overlaps %d; want %d, %d", h.Overlaps, h.SelfOverlaps, c.overlaps, c.selfish)
			}
			gap := h.SmallestGapMS
			if c.selfish > 0 {
				gap = h.SmallestGapWithinMS
			}
			if gap == nil || *gap != 0 {
				t.Errorf("smallest gap %v, want 0", gap)
			}
		})
	}
}

// TestAuditSeesNoOverlapInTurns has many sources ask strictly one after another, each as soon as
// the one before has its response.
func TestAuditSeesNoOverlapInTurns(t *testing.T) {
	w := smallWeb(1)
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	seed := w.Seeds(portOf(srv))[0]
	clients := []*http.Client{client(t, srv, "127.0.0.2"), client(t, srv, "127.0.0.3"), client(t, srv, "127.0.0.4")}
	get(t, clients[0], seed+"robots.txt")
	for i := range 600 {
		get(t, clients[i%len(clients)], strings.TrimSuffix(seed, "/")+string(appendPath(nil, i%w.cfg.PagesPerHost)))
	}
	h := audited(t, clients[0], srv).Hosts[0]
	if h.Requests != 600 || h.DistinctURLs != 200 || h.RepeatedURLs != 200 {
		t.Errorf("requests %d, distinct %d, repeated %d; want 600, 200, 200", h.Requests, h.DistinctURLs, h.RepeatedURLs)
	}
	if h.Overlaps != 0 || h.SelfOverlaps != 0 {
		t.Errorf("overlaps %d, self overlaps %d; want none", h.Overlaps, h.SelfOverlaps)
	}
	if len(h.Workers) != 3 || h.SmallestGapMS == nil {
		t.Errorf("workers %v, smallest gap %v", h.Workers, h.SmallestGapMS)
	}
}

func TestAuditOfMisdeeds(t *testing.T) {
	cfg := smallWeb(1).cfg
	cfg.RobotsShare, cfg.ErrorShare = 1, 0.2
	w := New(cfg)
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	c := client(t, srv, "127.0.0.2")
	seed := w.Seeds(portOf(srv))[0]
	page := func(want func(n int) bool) string {
		for n := range w.cfg.PagesPerHost {
			if want(n) {
				return strings.TrimSuffix(seed, "/") + string(appendPath(nil, n))
			}
		}
		t.Fatal("no such page")
		return ""
	}
	flakyPage := page(func(n int) bool { return w.kindOf(place{0, n}) == flaky && w.rulesOf(0).allows(n) })

	get(t, c, seed) // before robots.txt
	get(t, c, seed+"robots.txt")
	get(t, c, page(func(n int) bool { return !w.rulesOf(0).allows(n) })) // forbidden
	get(t, c, seed+"trap/3.html")                                        // marked nofollow
	get(t, c, flakyPage)                                                 // fails
	get(t, c, flakyPage)                                                 // a retry
	get(t, c, flakyPage)                                                 // a repetition
	get(t, c, seed+"?q=1")                                               // no page has a query
	get(t, c, srv.URL)                                                   // not a host of the web

	a := audited(t, c, srv)
	h := a.Hosts[0]
	if h.BeforeRobots != 1 || h.Disallowed != 1 || h.RobotsViolations != 2 {
		t.Errorf("before robots %d, disallowed %d, violations %d; want 1, 1, 2", h.BeforeRobots, h.Disallowed, h.RobotsViolations)
	}
	if h.Trapped != 1 || h.Retries != 1 || h.RepeatedURLs != 1 || h.RepeatedRequests != 1 || h.RobotsRequests != 1 {
		t.Errorf("trapped %d, retries %d, repeated %d by %d requests, robots %d; want 1 each",
			h.Trapped, h.Retries, h.RepeatedURLs, h.RepeatedRequests, h.RobotsRequests)
	}
	if h.Requests != 7 || h.DistinctURLs != 5 || h.Statuses[404] != 1 || a.UnknownHost != 1 || a.HostsVisited != 1 {
		t.Errorf("audit %+v", a)
	}

	_, urls := get(t, c, srv.URL+AuditURLsPath)
	if lines := bytes.Count(urls, []byte("\n")); lines != 5 || !bytes.Contains(urls, []byte(`"path":"/trap/3.html","count":1`)) {
		t.Errorf("audited URLs:\n%s", urls)
	}
	resp, err := c.Post(srv.URL+AuditResetPath, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if a := audited(t, c, srv); resp.StatusCode != http.StatusNoContent || a.HostsVisited != 0 || a.Totals.Requests != 0 {
		t.Errorf("after a reset (%s): %+v", resp.Status, a)
	}
}

func TestProbesAreNoRequests(t *testing.T) {
	w := smallWeb(1)
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	c := client(t, srv, "")
	resp, err := c.Head(w.Seeds(portOf(srv))[0])
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := w.Audit().Totals
	if resp.ContentLength <= 0 || h.Probes != 1 || h.Requests != 0 || h.RobotsViolations != 0 || h.Overlaps != 0 {
		t.Errorf("length %d, audit %+v", resp.ContentLength, h)
	}
}

// TestConnectsWithoutARequestAreCounted: they are how a probe by TCP connect looks from here.
func TestConnectsWithoutARequestAreCounted(t *testing.T) {
	w := smallWeb(1)
	srv := httptest.NewUnstartedServer(w.Handler())
	srv.Config.ConnState = w.audit.connects.state
	srv.Start()
	for range 3 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	get(t, client(t, srv, ""), w.Seeds(portOf(srv))[0]) // is accepted behind those
	srv.Close()                                         // waits for all that were
	if by := w.Audit().Connects; len(by) != 1 || by["127.0.0.1"] != 3 {
		t.Errorf("connects %v, want three of 127.0.0.1", by)
	}
	w.ResetAudit()
	if by := w.Audit().Connects; len(by) != 0 {
		t.Errorf("forgotten connects: %v", by)
	}
}

func TestServeUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, served := make(chan net.Addr, 1), make(chan error, 1)
	go func() { served <- Serve(ctx, "127.0.0.1:0", Config{}, func(a net.Addr) { ready <- a }) }()
	addr := <-ready
	srv := &httptest.Server{Listener: listenerAt{addr: addr}}
	resp, _ := get(t, client(t, srv, ""), New(Config{}).Seeds(addr.(*net.TCPAddr).Port)[3])
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %s", resp.Status)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := Serve(t.Context(), "127.0.0.1:99999", Config{}, nil); err == nil {
		t.Error("no error from an address that is none")
	}
}

// listenerAt is a listener's address without the listener.
type listenerAt struct {
	net.Listener
	addr net.Addr
}

func (l listenerAt) Addr() net.Addr { return l.addr }

func BenchmarkServe(b *testing.B) {
	cfg := DefaultConfig()
	cfg.ErrorShare = 0 // or it measures how long slow pages wait
	w := New(cfg)
	h := w.Handler()
	n := 0
	for b.Loop() {
		n = (n + 1) % w.cfg.PagesPerHost
		req := httptest.NewRequest(http.MethodGet, "http://h0.web.localhost:8080"+string(appendPath(nil, n)), nil)
		h.ServeHTTP(discard{}, req)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
