//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/scripts/harness/meter"
)

const (
	// pages of a server, each of which links to the next few; pageBytes is their mean.
	pages     = 4000
	links     = 4
	pageBytes = 12_000
	// slice is how long a server's write lasts at its rate.
	slice = 10 * time.Millisecond
)

// serve starts the servers, at 127.0.2.1 and on, until ctx ends, and returns a seed of each.
func serve(ctx context.Context, m *meter.Meter, servers int, median float64, seed uint64) (seeds []string, err error) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	go m.Run(ctx)
	var lc net.ListenConfig
	for i := range servers {
		l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.2.%d:0", i+1))
		if err != nil {
			return nil, err
		}
		s := &site{rate: median * math.Exp(0.9*rnd.NormFloat64()), think: time.Duration(20+rnd.IntN(100)) * time.Millisecond, seed: seed<<16 + uint64(i)}
		srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(meter.Listener{Listener: l, Meter: m}) }()
		context.AfterFunc(ctx, func() { _ = srv.Close() })
		seeds = append(seeds, fmt.Sprintf("http://%s/p/0", l.Addr()))
	}
	return seeds, nil
}

// site is a web server that thinks and then gives its pages at its rate.
type site struct {
	rate  float64 // bytes a second
	think time.Duration
	seed  uint64
}

// ServeHTTP gives a page.
func (s *site) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	n, err := strconv.Atoi(req.URL.Path[min(len(req.URL.Path), len("/p/")):])
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
