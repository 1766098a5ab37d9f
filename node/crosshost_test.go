package node

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
)

// counted are sites that count the requests of each peer to each host at once, and who asked.
type counted struct {
	mu    sync.Mutex
	open  map[string]int
	twice map[string]string
	by    map[string]map[string]bool // who asked a host for pages
}

// enter notes the beginning of a request, leave is to be called at its end.
func (c *counted) enter(r *http.Request) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who, _, _ := net.SplitHostPort(r.RemoteAddr)
	visit := r.Host + " by " + who
	if c.open[visit]++; c.open[visit] > 1 {
		c.twice[visit] = r.URL.Path
	}
	if r.URL.Path != "/robots.txt" {
		if c.by[r.Host] == nil {
			c.by[r.Host] = make(map[string]bool)
		}
		c.by[r.Host][who] = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[visit]--
	}
}

// TestRobotsAtAnotherHost: hosts of different workers whose robots.txt lead to the same host, which
// a third one crawls, are read by the rules that they find there. Each peer asks it one thing at a
// time, and only the one that crawls it for pages.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestRobotsAtAnotherHost(t *testing.T) {
	t.Parallel()
	const leading, pages = 3, 40 // hosts that lead there at each of two workers; pages of the one they lead to
	names := serveNames(t)
	sites := &counted{open: make(map[string]int), twice: make(map[string]string), by: make(map[string]map[string]bool)}
	var target string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer sites.enter(r)()
		switch {
		case r.URL.Path == "/robots.txt" && r.Host != target:
			http.Redirect(w, r, "http://"+target+"/robots.txt", http.StatusMovedPermanently)
		case r.URL.Path == "/robots.txt":
			time.Sleep(200 * time.Millisecond)
			fmt.Fprint(w, "User-agent: *\nDisallow: /closed")
		default:
			time.Sleep(30 * time.Millisecond)
			fmt.Fprint(w, r.Host, r.URL.Path)
		}
	}))
	t.Cleanup(site.Close)
	peers := ringOf(t, 3, func(_ int, c *Config) {
		c.DNSServer, c.Placement, c.Delay, c.LeaseTTL = names.addr, "owner", 20*time.Millisecond, 30*time.Second
	})
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// hostAt is a host that a peer owns and so, by the strategy, crawls.
	next := 0
	hostAt := func(p *testPeer) string {
		for ; ; next++ {
			if host := fmt.Sprintf("h%d.test:%s", next, port); p.ring.dht.Serves(ring.HostKey(host)) {
				next++
				return host
			}
		}
	}
	target = hostAt(peers[0])
	var urls []string
	for i := range pages {
		urls = append(urls, fmt.Sprintf("http://%s/%d", target, i))
	}
	for _, p := range peers[1:] {
		for range leading {
			host := hostAt(p)
			urls = append(urls, "http://"+host+"/open", "http://"+host+"/closed")
		}
	}
	crawlAll(t, peers[0], control.JobSpec{URLs: urls})
	sites.mu.Lock()
	defer sites.mu.Unlock()
	for visit, what := range sites.twice {
		t.Errorf("%s: two things at once, the second %s", visit, what)
	}
	if len(sites.by) != 1+2*leading || len(sites.by[target]) != 1 {
		t.Errorf("hosts were asked by %v", sites.by)
	}
	got := fetchedURLs(t, peers[0])
	if len(got) != pages+2*leading {
		t.Errorf("%d pages of %d", len(got), pages+2*leading)
	}
	for _, url := range got {
		if strings.HasSuffix(url, "/closed") {
			t.Errorf("%s was fetched", url)
		}
	}
}
