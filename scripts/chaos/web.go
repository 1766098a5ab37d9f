package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/scripts/harness"
)

// shape is the size of a web and the pace at which it is crawled: hosts x pages, each host asked
// every delay, takes pages x delay at least.
type shape struct {
	hosts, pages int
	delay        time.Duration
}

// web is the web and what its audit says as time goes by.
type web struct {
	*harness.Web
	seeds []string
	truth webtruth.Truth
	pulse harness.Pulse

	mu    sync.Mutex // guards what follows
	audit webgen.Audit
	hosts map[string]*visited
}

// visited is one host as the crawl comes by.
type visited struct {
	requests int64
	at       time.Time // when requests last grew
	pauses   []pause
}

// pause is a time without a request to a host that had pages left, as it turned out.
type pause struct {
	from, to time.Time
	requests int64 // when it began
}

// Between two looks at the audit, and the least time without a request that is a pause. A delay
// longer than that would be one.
const (
	lookEvery = 100 * time.Millisecond
	pauseFrom = time.Second
)

// latencyShare is what part of the delay a response takes: long enough that two workers at one host
// would soon be there at once.
const latencyShare = 5

// serveWeb starts a web that ends with ctx and looks at its audit until then. Pages have no faults,
// so that each is to be had at once.
func serveWeb(ctx context.Context, listen, domain string, seed uint64, size shape, group *sync.WaitGroup) (*web, error) {
	cfg := webgen.DefaultConfig()
	cfg.Seed, cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.Links, cfg.ErrorShare, cfg.Domain = seed, size.hosts, size.pages, 2000, 20, 0, domain
	cfg.Latency = size.delay / latencyShare
	served, err := harness.ServeWeb(ctx, group, listen, cfg)
	if err != nil {
		return nil, err
	}
	w := &web{Web: served, seeds: served.Seeds(), truth: served.Truth(), hosts: make(map[string]*visited)}
	group.Go(func() { w.watch(ctx) })
	group.Go(func() { w.pulse.Run(ctx) })
	return w, nil
}

// look takes the audit as of now.
func (w *web) look() webgen.Audit {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.audit = w.Audit()
	for _, h := range w.audit.Hosts {
		v := w.hosts[h.Host]
		if v == nil {
			v = &visited{at: now}
			w.hosts[h.Host] = v
		}
		if h.Requests == v.requests {
			continue
		}
		if now.Sub(v.at) >= pauseFrom && v.requests > 0 {
			v.pauses = append(v.pauses, pause{v.at, now, v.requests})
		}
		v.requests, v.at = h.Requests, now
	}
	return w.audit
}

func (w *web) watch(ctx context.Context) {
	for harness.Sleep(ctx, lookEvery) == nil {
		w.look()
	}
}

// whole is how many requests a crawl without repetition makes.
func (w *web) whole() int64 {
	return int64(len(w.truth.URLs) + w.truth.Redirects + w.truth.Gone + w.truth.Sitemaps)
}

// requests is how many there were when last looked.
func (w *web) requests() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.audit.Totals.Requests
}

// until waits for the share of the crawl to be done.
func (w *web) until(ctx context.Context, share float64) error {
	return w.untilRequests(ctx, int64(share*float64(w.whole())))
}

func (w *web) untilRequests(ctx context.Context, n int64) error {
	for w.requests() < n {
		if err := harness.Sleep(ctx, lookEvery/2); err != nil {
			return fmt.Errorf("%d of %d requests: %w", w.requests(), n, err)
		}
	}
	return nil
}

// fewLeft is how many pages of a host are so few that a pause may be for want of known URLs.
const fewLeft = 10

// resumed is how long after a fault the last of the hosts that paused on its account was asked
// again; a pause is on its account if it began from a second before until a lease and a bit after.
// A worker whose owner died goes on until its lease ends.
func (w *web) resumed(fault time.Time) (last time.Duration, host string) {
	const onAccount = 10 * time.Second
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, h := range w.hosts {
		for _, p := range h.pauses {
			if since := p.from.Sub(fault); since > -pauseFrom && since < onAccount && h.requests-p.requests >= fewLeft {
				if after := p.to.Sub(fault); after > last {
					last, host = after, name
				}
			}
		}
	}
	return last, host
}
