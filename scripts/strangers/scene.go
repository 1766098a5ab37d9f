package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// The web: as many hosts, each asked once a delay, so that the crawl outlasts the attacks.
const (
	webHosts = 12
	webDelay = 200 * time.Millisecond
	peers    = 3
	// turn is what there is between two attacks: a peer leaves.
	turn = 1500 * time.Millisecond
	// endWithin is how much longer than the attacks the crawl may take.
	endWithin = 2 * time.Minute
)

// scene is the web, and the ring that crawls it.
type scene struct {
	*options
	ctx     context.Context // of all processes
	end     context.CancelFunc
	group   sync.WaitGroup // of what runs until end
	web     *harness.Web
	peers   []*peer // the first is attacked
	fresh   int     // peers that joined meanwhile
	honest  *honest // calls the peer that is attacked
	control *honest // calls another member, as a control
	planned time.Duration
}

// open starts web and ring, and has the ring crawl for about so long.
func open(ctx context.Context, o *options, planned time.Duration) (*scene, error) {
	s := &scene{options: o, planned: planned}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	err := harness.Try(func() { s.start(ctx) })
	if err != nil {
		s.close()
	}
	return s, err
}

func (s *scene) start(ctx context.Context) {
	s.web = s.serveWeb()
	s.startRing(ctx, peers)
	s.honest = newHonest(ctx, s.peers[0].addr)
	s.control = newHonest(ctx, s.peers[2].addr)
	s.job = harness.Must(s.peers[1].Client.Post(ctx, control.JobSpec{URLs: s.web.Seeds()})).ID
	for s.web.Audit().Totals.Requests <= 2*webHosts { // until the crawl is under way
		harness.Check(harness.Sleep(ctx, 50*time.Millisecond))
	}
}

// startRing starts the peers of the ring; args are for the one that founds it.
func (s *scene) startRing(ctx context.Context, n int, args ...string) {
	for i := range n {
		if i > 0 {
			args = []string{"--bootstrap", s.peers[0].addr}
		}
		s.peers = append(s.peers, harness.Must(s.startPeer(ctx, s.ctx, fmt.Sprintf("p%d", i+1), append(args, "--pprof", s.pprof(i))...)))
	}
}

func (s *scene) close() {
	for _, h := range []*honest{s.honest, s.control} {
		if h != nil {
			h.close()
		}
	}
	s.end()
	for _, p := range s.peers {
		p.Kill()
	}
	s.group.Wait()
}

// serveWeb starts the web.
func (s *scene) serveWeb() *harness.Web {
	// The crawl is to outlast the attacks. Hosts rest for some seconds when a peer joins or leaves,
	// which is more of the time where attacks are short.
	s.pages = int(s.planned / webDelay)
	if s.quick {
		s.pages /= 2
	} else {
		s.pages += s.pages / 4
	}
	return harness.Must(harness.ServeWeb(s.ctx, &s.group, fmt.Sprintf("127.0.0.1:%d", s.port), webConfig(s.port, s.pages)))
}

// webConfig is a web of so many pages a host. They have no faults and are archived, so that each is
// to be had at once, and no two are alike, nor like those of a web on another port.
func webConfig(port, pages int) webgen.Config {
	cfg := webgen.DefaultConfig()
	cfg.Seed = uint64(port) //nolint:gosec // not negative
	cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.Links, cfg.ErrorShare, cfg.DuplicateShare, cfg.NoindexShare = webHosts, pages, 2000, 20, 0, 0, 0
	return cfg
}

// pprof is where the profiler of a peer of the ring answers.
func (s *scene) pprof(i int) string { return fmt.Sprintf("127.0.0.1:%d", s.port+1+i) }

// heap is what a peer of the ring has in use: once it has collected what is garbage, which
// would count as its heap for long after an attack.
func (s *scene) heap(ctx context.Context, i int) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.pprof(i)+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(raw), "# HeapAlloc = ")
	line, _, _ := strings.Cut(after, "\n")
	return strconv.ParseInt(line, 10, 64)
}

// finish waits for the end of the crawl and counts what is missing. Members could hide pages, and
// have others fetched again.
func (s *scene) finish(ctx context.Context, members bool) *report {
	r := &report{name: "crawl"}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.planned+endWithin)
	defer cancel()
	if err := s.peers[1].Client.Wait(ctx, "", -1, func(control.Progress) error { return nil }); err != nil {
		r.Blame("the crawl did not end: %v", err)
	}
	a, asked, pages := s.web.Audit().Totals, s.web.Asked(), s.web.Truth().URLs
	lost := 0
	for _, u := range pages {
		if asked[u] == 0 {
			lost++
		}
	}
	mostLost, most := 0, int64(len(pages))/50
	if members {
		mostLost, most = len(pages)/200, int64(len(pages))/10
	}
	if lost > mostLost {
		r.Blame("%d of %d pages are lost", lost, len(pages))
	}
	if a.RepeatedRequests > most { // fresh peers come and go, which may cost a page
		r.Blame("%d pages were fetched again, at most %d may be", a.RepeatedRequests, most)
	}
	if j, err := s.peers[1].Client.Job(ctx, s.job); err != nil {
		r.Blame("the job: %v", err)
	} else if alike := j.Outcomes["duplicate"]; alike > a.RepeatedRequests {
		r.Blame("%d pages are kept as references to others, and no two are alike", alike)
	}
	if a.Overlaps > 0 {
		r.Blame("two workers at once asked a host %d times", a.Overlaps)
	}
	r.Say("%d pages, %d lost; fetched again %d, two at once %d; ended %.0f s after the attacks",
		len(pages), lost, a.RepeatedRequests, a.Overlaps, time.Since(begin).Seconds())
	return r
}

// peer is a running process of the product.
type peer struct {
	*harness.Peer
	addr string // multiaddr by which others join
}

// startPeer runs `apoidea run` and returns when the peer is in the ring, within ctx. The process
// ends with life.
func (s *scene) startPeer(ctx, life context.Context, name string, args ...string) (*peer, error) {
	h, err := harness.Start(life, s.work, name, nil, append([]string{
		"--dashboard", "off", "--log-level", s.logLevel, "--quiet", "--allow-private", "--delay", webDelay.String(), "--optout-proof", "yes",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	p := &peer{Peer: h}
	st, err := p.Ready(ctx, true)
	if err == nil {
		i := slices.IndexFunc(st.Addrs, func(a string) bool { return strings.Contains(a, "/tcp/") })
		if i >= 0 {
			p.addr = st.Addrs[i]
			return p, nil
		}
		err = fmt.Errorf("listens at %v", st.Addrs)
	}
	p.Kill()
	return nil, err
}
