//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/scripts/harness/meter"
)

const (
	// governed is the limit in bytes per second.
	governed = 250_000
	// warm is how long a peer crawls before it is measured.
	warm = 8 * time.Second
	// servers, each at an address of its own; medianRate is the median of their rates in bytes per
	// second.
	servers    = 40
	medianRate = 60_000
	// pages of a server, each of which links to the next few; pageBytes is their mean.
	pages     = 4000
	links     = 4
	pageBytes = 12_000
	// slice is how long a server's write lasts at its rate.
	slice = 10 * time.Millisecond
)

// governors has a peer crawl servers of different speeds with each governor. Goals are for ours.
func (t *trial) governors(ctx context.Context) {
	for name := range strings.SplitSeq(t.names, ",") {
		t.govern(ctx, name)
	}
}

// govern measures one peer.
func (t *trial) govern(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, warm+t.span+time.Minute)
	defer cancel()
	m := meter.New()
	seeds := serve(ctx, m)
	peer := harness.Must(harness.Start(ctx, t.work, "peer-"+name, nil, append([]string{
		"--profile", "lab", "--allow-private", "--delay", "0s", "--bandwidth", strconv.Itoa(governed) + "B", "--governor", name, "--dashboard", "off", "--quiet",
	}, seeds...)...))
	defer peer.Kill()
	from := time.Now().Add(warm)
	to := from.Add(t.span)
	select {
	case <-peer.Done:
		harness.Check(errors.Join(peer.Ended(), ctx.Err()))
	case <-time.After(time.Until(to)):
	}
	down, _ := m.Between(from, to)
	use := float64(down) / t.span.Seconds() / governed
	most, above := m.Windows(from, to, governed*102/100)
	goals := map[bool][2]string{true: {"0.95 L", "0 %"}, false: {"-", "-"}}[name == "ours"]
	t.figure("governor "+name+": of the limit used", goals[0], fmt.Sprintf("%.3f L", use), name != "ours" || use >= 0.95)
	t.figure("governor "+name+": the fullest second", "-", fmt.Sprintf("%.3f L", float64(most)/governed), true)
	t.figure("governor "+name+": seconds above 1.02 L, of all phases", goals[1], fmt.Sprintf("%.2f %%", 100*above), name != "ours" || above == 0)
	status := harness.Must(peer.Client.Status(ctx, false))
	if status.Governor != nil && status.Governor.Admitted > 0 {
		passed := float64(status.Governor.Passed) / float64(status.Governor.Admitted)
		t.figure("governor "+name+": fetches that passed a higher score", "-", fmt.Sprintf("%.1f %%", 100*passed), true)
	}
}

// serve starts the servers, at 127.0.2.1 and on, until ctx ends, and returns a seed of each.
func serve(ctx context.Context, m *meter.Meter) (seeds []string) {
	rnd := rand.New(rand.NewPCG(1, 0)) // the same servers for each governor
	go m.Run(ctx)
	for i := range servers {
		l := harness.Must((&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.2.%d:0", i+1)))
		s := &slowSite{rate: medianRate * math.Exp(0.9*rnd.NormFloat64()), think: time.Duration(20+rnd.IntN(100)) * time.Millisecond, seed: 1<<16 + uint64(i)}
		srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(meter.Listener{Listener: l, Meter: m}) }()
		context.AfterFunc(ctx, func() { _ = srv.Close() })
		seeds = append(seeds, fmt.Sprintf("http://%s/p/0", l.Addr()))
	}
	return seeds
}

// slowSite waits and then sends its pages at its rate.
type slowSite struct {
	rate  float64 // bytes per second
	think time.Duration
	seed  uint64
}

// ServeHTTP sends a page.
func (s *slowSite) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/p/"))
	if err != nil || n < 0 || n >= pages {
		http.NotFound(rw, req)
		return
	}
	time.Sleep(s.think)
	rnd := rand.New(rand.NewPCG(s.seed, uint64(n)))
	size := int(pageBytes * math.Exp(0.5*rnd.NormFloat64()-0.125))
	page := fmt.Appendf(nil, "<!doctype html><title>%d of %d</title>", n, s.seed)
	for i := range links {
		page = fmt.Appendf(page, "<a href=/p/%d>on</a> ", links*n+i+1)
	}
	for len(page) < size {
		page = fmt.Appendf(page, "%x ", rnd.Uint64())
	}
	rw.Header().Set("Content-Type", "text/html")
	rw.Header().Set("Content-Length", strconv.Itoa(len(page)))
	flush := http.NewResponseController(rw)
	part := max(int(s.rate*slice.Seconds()), 256)
	next := time.Now()
	for len(page) > 0 {
		k := min(part, len(page))
		if _, err := rw.Write(page[:k]); err != nil || flush.Flush() != nil {
			return
		}
		page = page[k:]
		next = next.Add(time.Duration(float64(k) / s.rate * float64(time.Second)))
		if late := time.Since(next); late > 0 {
			next = next.Add(late)
		}
		time.Sleep(time.Until(next))
	}
}
