package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

// request is one that a site saw.
type request struct {
	at               time.Time
	host, path, from string
	mail             string
}

// site is a server that notes what it is asked.
type site struct {
	*httptest.Server
	port string

	mu   sync.Mutex // guards seen
	seen []request
}

// serveSite answers on loopback for every host below localhost.
func serveSite(t *testing.T, answer func(s *site, w http.ResponseWriter, r *http.Request)) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		s.mu.Lock()
		s.seen = append(s.seen, request{time.Now(), r.Host, r.URL.Path, from, r.Header.Get("From")})
		s.mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		answer(s, w, r)
	}))
	t.Cleanup(s.Close)
	_, s.port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return s
}

func (s *site) host(name string) string { return name + ".localhost:" + s.port }

// requests are those of a path, or of all pages if it is empty, robots.txt aside.
func (s *site) requests(path string) (list []request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r.path == path || path == "" && r.path != "/robots.txt" {
			list = append(list, r)
		}
	}
	return list
}

// ringOf runs n peers that treat sites as change says.
func ringOf(t *testing.T, n int, change func(i int, c *Config)) []*testPeer {
	t.Helper()
	dir := t.TempDir()
	var peers []*testPeer
	for i := 1; i <= n; i++ {
		cfg := DefaultConfig(filepath.Join(dir, fmt.Sprint("peer", i)), ProfileLab)
		cfg.AllowPrivate, cfg.Delay, cfg.Network, cfg.LeaseTTL = true, 0, "test", 2*time.Second
		cfg.FetchFrom = netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}) // a small number
		if i > 1 {
			cfg.Bootstrap = []string{peers[0].ring.net.Addrs()[0]}
		}
		change(i, &cfg)
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	return peers
}

// until waits for something to come true.
func until(t *testing.T, what string, is func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !is(ctx) {
		if loop.Sleep(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("%s does not come true", what)
		}
	}
}

// TestOptOutInTheRing: a host that opts out while it is crawled is not asked for anything any more
// by whichever peer, what waits of it has that as its outcome, and the host and a URL of it say
// why. When it has withdrawn it is crawled again.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestOptOutInTheRing(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, func(c *webgen.Config) {
		c.Hosts, c.PagesPerHost, c.Latency, c.RobotsShare, c.SitemapShare = 3, 200, 10*time.Millisecond, 0, 0
	})
	peers := ringOf(t, 3, func(int, *Config) {})
	seeds := web.Seeds(web.port)
	victim := link.Host(seeds[0])
	ctx := t.Context()
	if _, err := peers[0].Post(ctx, control.JobSpec{URLs: seeds, Scope: []string{"*.web.localhost"}}); err != nil {
		t.Fatal(err)
	}
	asked := func() int64 {
		for _, h := range web.Audit().Hosts {
			if h.Host == victim || h.Host+fmt.Sprint(":", web.port) == victim {
				return h.Requests + h.RobotsRequests + h.Probes
			}
		}
		return 0
	}
	until(t, "a crawl of the host", func(context.Context) bool { return asked() > 5 })
	o, err := peers[1].SetOptOut(ctx, "host "+victim, "opt-out")
	if err != nil || !o.Changed {
		t.Fatalf("opt-out: %+v, %v", o, err)
	}
	until(t, "the end of its lease", func(ctx context.Context) bool {
		h, err := peers[2].Host(ctx, victim)
		return err == nil && h.OptedOut != "" && h.Worker == ""
	})
	// The worker may send requests until it learns that the lease has ended, and a busy machine may
	// delay the last one for longer than any fixed time. All requests that began under the lease have
	// ended when the paused workers have none in flight.
	for _, p := range peers {
		p.crawl.Worker.Pause()
	}
	until(t, "the end of all requests", func(context.Context) bool {
		return !slices.ContainsFunc(peers, func(p *testPeer) bool {
			s := p.crawl.Worker.Stats()
			return s.Hosts+s.InFlight > 0
		})
	})
	before := asked()
	for _, p := range peers {
		p.crawl.Worker.Resume()
	}
	waitIdle(t, peers[0])
	if n := asked(); n != before {
		t.Errorf("%d requests for a host that has opted out", n-before)
	}
	j, err := peers[0].Jobs(ctx)
	if err != nil || len(j) != 1 || j[0].Outcomes["opted_out"] == 0 {
		t.Errorf("outcomes %v, %v: want some opted_out", j[0].Outcomes, err)
	}
	w, err := peers[2].Why(ctx, "http://"+victim+"/never/met")
	if err != nil || !strings.Contains(w.Text+w.Jobs[0].Text, "opted out") {
		t.Errorf("why: %+v, %v", w, err)
	}
	c, err := peers[0].OptOutCheck(ctx, "http://"+victim+"/")
	if err != nil || !c.OptedOut {
		t.Errorf("check: %+v, %v", c, err)
	}
	if o, err = peers[2].SetOptOut(ctx, "host "+victim, "withdraw"); err != nil || !o.Changed {
		t.Fatalf("withdraw: %+v, %v", o, err)
	}
	crawlAll(t, peers[1], control.JobSpec{URLs: seeds[:1], MaxPages: 3})
	if asked() == before {
		t.Error("not crawled after it has withdrawn")
	}
}

// TestOptOutSurvives: the wish is kept when its owner is gone, as it is with the host's record at
// its replicas.
func TestOptOutSurvives(t *testing.T) {
	t.Parallel()
	peers := ringOf(t, 3, func(int, *Config) {})
	const victim = "gone.localhost:8089"
	if _, err := peers[0].SetOptOut(t.Context(), victim, "opt-out"); err != nil {
		t.Fatal(err)
	}
	h, err := peers[0].Host(t.Context(), victim)
	if err != nil || h.OptedOut == "" {
		t.Fatalf("host %+v, %v", h, err)
	}
	i := slices.IndexFunc(peers, func(p *testPeer) bool { return p.ring.net.Self().String() == h.Owner })
	if err := peers[i].stop(); err != nil {
		t.Fatal(err)
	}
	rest := slices.Delete(slices.Clone(peers), i, i+1)
	until(t, "the next owner knows", func(ctx context.Context) bool {
		h, err := rest[0].Host(ctx, victim)
		return err == nil && h.OptedOut != "" && h.Owner != peers[i].ring.net.Self().String()
	})
}

// TestOptOutLists: what stands on a peer's own lists is not fetched by it: pages, robots.txt, and
// what redirects lead to; when the file changes that holds at once. A list that cannot be had
// leaves the last one in force, also over a restart.
func TestOptOutLists(t *testing.T) {
	t.Parallel()
	s := serveSite(t, func(s *site, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(w, `<a href="/private/x">x</a> <a href="/open">y</a> <a href="http://%s/">z</a> <a href="/away">w</a>`, s.host("b"))
		case "/away":
			http.Redirect(w, r, "http://"+s.host("c")+"/", http.StatusFound)
		default:
			fmt.Fprint(w, "a page of ", r.Host, r.URL.Path)
		}
	})
	lists := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintln(w, "host", s.host("c"))
	}))
	t.Cleanup(lists.Close)
	file := filepath.Join(t.TempDir(), "optout.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil { // whole, as it is read meanwhile
			t.Fatal(err)
		}
	}
	write("url " + s.host("a") + "/private/\nhost " + s.host("b") + "\n")
	peers := ringOf(t, 1, func(_ int, c *Config) { c.OptOutFile, c.OptOutURL = file, lists.URL })
	p := peers[0]
	until(t, "the list of the URL", func(context.Context) bool { return p.optOuts.Sources()[1].List != nil })
	crawlAll(t, p, control.JobSpec{URLs: []string{"http://" + s.host("a") + "/"}, Scope: []string{"*.localhost"}})
	for _, r := range s.requests("") {
		if strings.HasPrefix(r.path, "/private/") || !strings.HasPrefix(r.host, "a.") {
			t.Errorf("asked for %s%s, which has opted out", r.host, r.path)
		}
	}
	if len(s.requests("/open")) != 1 || len(s.requests("/away")) != 1 {
		t.Errorf("what has not opted out: %v", s.requests(""))
	}
	for _, r := range s.requests("/robots.txt") {
		if !strings.HasPrefix(r.host, "a.") {
			t.Errorf("robots.txt of %s, which has opted out", r.host)
		}
	}
	o, err := p.OptOuts(t.Context())
	if err != nil || len(o.Lists) != 2 || o.Lists[0].Rules != 2 || o.Lists[1].Rules != 1 {
		t.Errorf("lists: %+v, %v", o, err)
	}
	write("ip 127.0.0.0/8\nsome slip of the pen\n")
	until(t, "the other list", func(context.Context) bool { return p.optOuts.Refused(netip.MustParseAddr("127.0.0.1")) })
	n := len(s.requests("")) + len(s.requests("/robots.txt"))
	crawlAll(t, p, control.JobSpec{URLs: []string{"http://" + s.host("d") + "/"}})
	if k := len(s.requests("")) + len(s.requests("/robots.txt")); k != n {
		t.Errorf("%d requests to an address that has opted out", k-n)
	}
}

// TestOptOutByForm: a site opts out by the form of one peer when it shows the token, and not
// before; another peer, which keeps it, has looked for itself.
func TestOptOutByForm(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	shown := ""
	s := serveSite(t, func(_ *site, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == optout.WellKnown {
			fmt.Fprintln(w, shown)
			return
		}
		fmt.Fprint(w, "a page")
	})
	peers := ringOf(t, 2, func(i int, c *Config) {
		if c.OptOutProof = true; i == 1 {
			c.OptOutListen = "127.0.0.1:0"
		}
	})
	for _, p := range peers {
		p.wishes.Prover().TXT = func(context.Context, string) ([]string, error) { return nil, errors.New("no such record") }
	}
	form := "http://" + peers[0].form.Addr().String() + "/"
	post := func(action string) int {
		t.Helper()
		resp, err := http.PostForm(form, url.Values{"name": {s.host("a")}, "action": {action}, "check": {"1"}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if code := post("opt-out"); code != http.StatusConflict {
		t.Fatalf("without a proof: status %d", code)
	}
	if _, err := peers[1].SetOptOut(t.Context(), s.host("a"), "opt-out"); control.KindOf(err) != control.KindRefused {
		t.Errorf("without a proof, past the form: %v", err)
	}
	host := optout.Subject{Kind: optout.KindHost, Name: s.host("a")}
	for _, p := range peers { // as if the rest were over
		p.wishes.Prover().Forget()
	}
	mu.Lock()
	shown = optout.Token(host, optout.Out)
	mu.Unlock()
	if code := post("opt-out"); code != http.StatusOK {
		t.Fatalf("with a proof: status %d", code)
	}
	n := len(s.requests("/"))
	crawlAll(t, peers[1], control.JobSpec{URLs: []string{"http://" + s.host("a") + "/", "http://" + s.host("b") + "/"}})
	var hosts []string
	for _, r := range s.requests("/")[n:] {
		hosts = append(hosts, r.host)
	}
	if !slices.Equal(hosts, []string{s.host("b")}) {
		t.Errorf("crawled: %v", hosts)
	}
	mu.Lock()
	shown = optout.Token(host, optout.Back)
	mu.Unlock()
	if code := post("withdraw"); code != http.StatusOK {
		t.Fatalf("withdrawn: status %d", code)
	}
	if h, err := peers[0].Host(t.Context(), s.host("a")); err != nil || h.OptedOut != "" {
		t.Errorf("withdrawn: %+v, %v", h, err)
	}
}

// TestDomainHosts: of a domain whose every page leads to new hosts a job gets as many as it may and
// no more; the domain's own wish covers all of them.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestDomainHosts(t *testing.T) {
	t.Parallel()
	const most = 12
	s := serveSite(t, func(s *site, w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ".")
		for i := range 3 {
			fmt.Fprintf(w, `<a href="http://%s/">more</a> `, s.host(fmt.Sprintf("%s%d.trap", name, i)))
		}
	})
	peers := ringOf(t, 3, func(_ int, c *Config) { c.DomainHosts = most })
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{"http://" + s.host("x.trap") + "/"}, Scope: []string{"*.localhost"}})
	hosts := make(map[string]bool)
	for _, r := range append(s.requests(""), s.requests("/robots.txt")...) {
		hosts[r.host] = true
	}
	if len(hosts) != most {
		t.Errorf("%d hosts of the domain were crawled, want %d", len(hosts), most)
	}
	if _, err := peers[1].SetOptOut(t.Context(), "domain trap.localhost", "opt-out"); err != nil {
		t.Fatal(err)
	}
	for host := range hosts {
		until(t, "the wish at the owner of "+host, func(ctx context.Context) bool {
			h, err := peers[2].Host(ctx, host)
			return err == nil && strings.Contains(h.OptedOut, "domain trap.localhost")
		})
	}
	n := len(s.requests(""))
	crawlAll(t, peers[2], control.JobSpec{URLs: []string{"http://" + s.host("new.trap") + "/", "http://" + s.host("x.trap") + "/"}})
	if k := len(s.requests("")); k != n {
		t.Errorf("%d requests below a domain that has opted out", k-n)
	}
}

// TestPortsOfAName: of a name at whose ports pages point the ring connects to as many as a job may
// have and to no other, whoever owns them; a seed's port and a site on three ports are crawled all
// the same.
func TestPortsOfAName(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	met := make(map[string]bool)
	var ports []string
	for range domain.MaxPorts + 30 {
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			met[r.Host] = true
			mu.Unlock()
		}))
		t.Cleanup(srv.Close)
		_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
		ports = append(ports, port)
	}
	s := serveSite(t, func(_ *site, w http.ResponseWriter, _ *http.Request) {
		for i, port := range ports {
			fmt.Fprintf(w, `<a href="http://scan.localhost:%s/">one</a> `, port)
			if i < 3 {
				fmt.Fprintf(w, `<a href="http://site.localhost:%s/">one</a> `, port)
			}
		}
	})
	peers := ringOf(t, 3, func(_ int, c *Config) {})
	seed := "scan.localhost:" + ports[len(ports)-1]
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{"http://" + s.host("start") + "/", "http://" + seed + "/"}, Scope: []string{"*.localhost"}})
	mu.Lock()
	defer mu.Unlock()
	scanned, served := 0, 0
	for host := range met {
		switch {
		case strings.HasPrefix(host, "site."):
			served++
		case host != seed:
			scanned++
		}
	}
	if scanned > domain.MaxPorts || scanned < domain.MaxPorts-1 || served != 3 || !met[seed] {
		t.Errorf("%d ports of a name were asked, %d of a site with 3, the seed's: %v", scanned, served, met[seed])
	}
}

// TestPermitsInTheRing: many hosts behind one address share one limit over all workers, as their
// server sees it. When the peer dies that grants the permits two limits hold in that chunk at most,
// and the crawl goes on.
func TestPermitsInTheRing(t *testing.T) {
	fullOnly(t)
	t.Parallel()
	const limit, chunk = 20, 4 * time.Second
	s := serveSite(t, func(_ *site, w http.ResponseWriter, r *http.Request) {
		for i := range 30 { // more than are asked for until the end, however long a peer takes to stop
			fmt.Fprintf(w, `<a href="/%d">x</a> `, i)
		}
		fmt.Fprint(w, r.Host, r.URL.Path)
	})
	// With its owner for a worker each host is crawled somewhere else; by round trips one peer may
	// get them all.
	peers := ringOf(t, 4, func(_ int, c *Config) { c.IPPermits, c.PermitChunk, c.Placement = limit, chunk, "owner" })
	var seeds []string
	for i := range 12 {
		seeds = append(seeds, "http://"+s.host(fmt.Sprint("h", i))+"/")
	}
	if _, err := peers[0].Post(t.Context(), control.JobSpec{URLs: seeds}); err != nil {
		t.Fatal(err)
	}
	all := func() []request { return append(s.requests(""), s.requests("/robots.txt")...) }
	// A request may be seen when its chunk is over, and on a busy machine much later. So what was
	// seen by the end of a chunk is held against all permits until then, which no delay can make
	// more.
	checkLimits := func(extra int) {
		t.Helper()
		list := all()
		slices.SortFunc(list, func(a, b request) int { return a.at.Compare(b.at) })
		first := list[0].at.Truncate(chunk)
		for i, r := range list {
			chunks := int(r.at.Truncate(chunk).Sub(first)/chunk) + 1
			if i+1 > limit*chunks+extra {
				t.Errorf("request %d is seen in chunk %d of %d each, and %d more", i+1, chunks, limit, extra)
				return
			}
		}
	}
	// On a busy machine the seeds of other owners come late.
	until(t, "two limits, shared by two workers", func(context.Context) bool {
		from := make(map[string]bool)
		for _, r := range all() {
			from[r.from] = true
		}
		return len(all()) > 2*limit && len(from) > 1
	})
	checkLimits(0)
	key := permit.Address(netip.MustParseAddr("127.0.0.1"))
	i := slices.IndexFunc(peers, func(p *testPeer) bool { return p.ring.dht.Serves(permit.Home(key)) })
	if err := peers[i].stop(); err != nil {
		t.Fatal(err)
	}
	n := len(all())
	until(t, "another limit after the granter died", func(context.Context) bool { return len(all()) > n+2*limit })
	checkLimits(limit + len(peers)) // the granter's last chunk, and what workers take while they know of none
}

// TestDomainDelayInTheRing: hosts of one domain are asked one after another with its delay between,
// robots.txt included, by whichever workers, as their server sees it. Those of another domain do
// not wait for them.
func TestDomainDelayInTheRing(t *testing.T) {
	fullOnly(t)
	t.Parallel()
	const delay = 500 * time.Millisecond
	s := serveSite(t, func(_ *site, w http.ResponseWriter, r *http.Request) {
		for i := range 30 {
			fmt.Fprintf(w, `<a href="/%d">x</a> `, i)
		}
		fmt.Fprint(w, r.Host, r.URL.Path)
	})
	peers := ringOf(t, 3, func(_ int, c *Config) { c.DomainDelay, c.PermitChunk, c.Placement = delay, 6*time.Second, "owner" })
	seeds := []string{"http://" + s.host("alone") + "/"}
	owners := make(map[int]bool) // and so workers, of which there are to be two at least
	for i := 0; i < 9 || len(owners) < 2; i++ {
		host := s.host(fmt.Sprintf("h%d.web", i))
		seeds = append(seeds, "http://"+host+"/")
		owners[slices.IndexFunc(peers, func(p *testPeer) bool { return p.ring.dht.Serves(ring.HostKey(host)) })] = true
	}
	if _, err := peers[0].Post(t.Context(), control.JobSpec{URLs: seeds}); err != nil {
		t.Fatal(err)
	}
	var list []request
	alone := 0
	until(t, "requests of two workers to a domain, and others beside them", func(context.Context) bool {
		from := make(map[string]bool)
		list, alone = nil, 0
		for _, r := range append(s.requests(""), s.requests("/robots.txt")...) {
			if strings.HasPrefix(r.host, "alone.") {
				alone++
				continue
			}
			from[r.from] = true
			list = append(list, r)
		}
		return len(list) >= 20 && len(from) > 1 && alone >= 10
	})
	slices.SortFunc(list, func(a, b request) int { return a.at.Compare(b.at) })
	for i, r := range list[1:] {
		before, least := list[i], delay
		if before.from != r.from {
			least /= 2 // the last request of a turn may be seen late
		}
		if gap := r.at.Sub(before.at); gap < least {
			t.Errorf("request %d, to %s%s from %s, is %v behind that to %s from %s", i+1, r.host, r.path, r.from, gap, before.host, before.from)
		}
	}
}

// TestRetryAfterAcrossWorkers: what a site asks for holds for whichever worker comes next, in both
// forms of the field (RFC 9110, 10.2.3).
func TestRetryAfterAcrossWorkers(t *testing.T) {
	t.Parallel()
	const rest = 3 * time.Second
	for name, field := range map[string]func() string{
		"seconds": func() string { return "3" },
		"a date":  func() string { return time.Now().Add(rest + time.Second).UTC().Format(http.TimeFormat) }, // of whole seconds, cut off
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var busy, again time.Time
			s := serveSite(t, func(_ *site, w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.URL.Path == "/" || !busy.IsZero() && r.URL.Path != "/busy":
					fmt.Fprint(w, `<a href="/busy">b</a> <a href="/c">c</a>`, r.URL.Path)
				case busy.IsZero():
					busy = time.Now()
					w.Header().Set("Retry-After", field())
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				default:
					fmt.Fprint(w, "well again")
				}
				if !busy.IsZero() && again.IsZero() {
					again = time.Now()
				}
			})
			peers := ringOf(t, 2, func(_ int, c *Config) { c.From = "me@example.org" })
			if _, err := peers[0].Post(t.Context(), control.JobSpec{URLs: []string{"http://" + s.host("a") + "/"}}); err != nil {
				t.Fatal(err)
			}
			until(t, "the site is busy", func(context.Context) bool { mu.Lock(); defer mu.Unlock(); return !busy.IsZero() })
			first := s.requests("/busy")[0]
			for _, p := range peers { // its worker, which is its owner too, hands the host on
				if p.cfg.FetchFrom.String() == first.from {
					if err := p.Leave(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			until(t, "the next request", func(context.Context) bool { mu.Lock(); defer mu.Unlock(); return !again.IsZero() })
			if gap := again.Sub(busy); gap < rest {
				t.Errorf("asked again after %v, want at least %v", gap, rest)
			}
			list := s.requests("")
			if last := list[len(list)-1]; last.from == first.from {
				t.Errorf("asked again by the worker that has left")
			}
			if first.mail != "me@example.org" {
				t.Errorf("From: %q", first.mail)
			}
		})
	}
}

// TestMannersConfig: what is set wrong is named; a contact by mail is the address of From.
func TestMannersConfig(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"from":          func(c *Config) { c.From = "Me <me@example.org>" },
		"optout-url":    func(c *Config) { c.OptOutURL = "file:///x" },
		"optout-listen": func(c *Config) { c.OptOutListen = "here" },
		"domain-hosts":  func(c *Config) { c.DomainHosts = -1 },
		"ip-permits":    func(c *Config) { c.IPPermits = -1 },
		"domain-delay":  func(c *Config) { c.DomainDelay = 2 * time.Hour },
	} {
		c := DefaultConfig("dir", ProfileLab)
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("wrong %s: %v, want an error that begins with it", field, err)
		}
	}
	for contact, want := range map[string]string{"mailto:me@example.org": "me@example.org", "https://example.org/": "", "mailto:nobody": "", "": ""} {
		if got := mailOf(contact); got != want {
			t.Errorf("contact %q: From %q, want %q", contact, got, want)
		}
	}
	lab, public := DefaultConfig("dir", ProfileLab), DefaultConfig("dir", ProfilePublic)
	if lab.DomainHosts != 10_000 || lab.IPPermits != 0 || lab.OptOutProof || public.DomainHosts != 1000 || public.IPPermits != 240 || !public.OptOutProof {
		t.Errorf("lab %+v, public %+v", lab, public)
	}
}
