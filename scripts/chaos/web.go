package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
)

// shape is the size of a web and the pace at which it is crawled: hosts x pages, each host asked
// every delay, takes pages x delay at least.
type shape struct {
	hosts, pages int
	delay        time.Duration
}

// web is `apoidea web serve` and what its audit says as time goes by.
type web struct {
	addr  string
	seeds []string
	truth webgen.Truth

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
func serveWeb(ctx context.Context, dir, listen, domain string, seed uint64, size shape, group *sync.WaitGroup) (*web, error) {
	cfg := webgen.DefaultConfig()
	cfg.Seed, cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.Links, cfg.ErrorShare, cfg.Domain = seed, size.hosts, size.pages, 2000, 20, 0, domain
	cmd := exec.CommandContext(ctx, "apoidea", "web", "serve", "--json", "--listen", listen, "--seed", strconv.FormatUint(seed, 10),
		"--hosts", strconv.Itoa(cfg.Hosts), "--pages", strconv.Itoa(cfg.PagesPerHost), "--page-bytes", strconv.Itoa(cfg.PageBytes),
		"--links", strconv.Itoa(cfg.Links), "--error-share", "0", "--domain", domain, "--latency", (size.delay / latencyShare).String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "web.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	group.Go(func() { _ = cmd.Wait() }) // killed with ctx
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		raw, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("web server: %w: %s", err, bytes.TrimSpace(raw))
	}
	var said struct {
		Listen string   `json:"listen"`
		Seeds  []string `json:"seeds"`
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return nil, fmt.Errorf("web server: %w", err)
	}
	host, port, err := splitPort(said.Listen)
	if err != nil {
		return nil, fmt.Errorf("web server: %w", err)
	}
	if net.ParseIP(host).IsUnspecified() {
		host = webAddr
	}
	w := &web{addr: fmt.Sprintf("%s:%d", host, port), seeds: said.Seeds, hosts: make(map[string]*visited)}
	w.truth = webgen.New(cfg).Truth(webgen.Walk{Port: port, MaxDepth: -1})
	group.Go(func() { w.watch(ctx) })
	return w, nil
}

func (w *web) get(ctx context.Context, path string, read func(*bufio.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.addr+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return read(bufio.NewReader(res.Body))
}

// look fetches the audit as of now.
func (w *web) look(ctx context.Context) (webgen.Audit, error) {
	var a webgen.Audit
	err := w.get(ctx, webgen.AuditPath, func(r *bufio.Reader) error { return json.NewDecoder(r).Decode(&a) })
	if err != nil {
		return a, fmt.Errorf("audit: %w", err)
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.audit = a
	for _, h := range a.Hosts {
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
	return a, nil
}

// reset forgets what was counted.
func (w *web) reset(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.addr+webgen.AuditResetPath, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (w *web) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = w.look(ctx) // the next one may succeed, and the last one is not made here
		case <-ctx.Done():
			return
		}
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
		if err := sleep(ctx, lookEvery/2); err != nil {
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

// asked returns how often each URL was asked for.
func (w *web) asked(ctx context.Context) (map[string]int, error) {
	_, port, err := splitPort(w.addr)
	if err != nil {
		return nil, err
	}
	asked := make(map[string]int)
	err = w.get(ctx, webgen.AuditURLsPath, func(r *bufio.Reader) error {
		lines := json.NewDecoder(r)
		for lines.More() {
			var u webgen.AuditURL
			if err := lines.Decode(&u); err != nil {
				return err
			}
			asked[fmt.Sprintf("http://%s:%d%s", u.Host, port, u.Path)] = u.Count
		}
		return nil
	})
	return asked, err
}
