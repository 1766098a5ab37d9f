package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestGoverned crawls under a cap with each governor, lifts it for a while and sets it again: every
// page is fetched once, nothing is left, no visit is forgotten, and servers become known.
func TestGoverned(t *testing.T) {
	for _, name := range bandwidth.Names() {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				const hosts, pages = 6, 40
				var seeds []string
				for i := range hosts {
					seeds = append(seeds, fmt.Sprintf("http://h%d.example/", i))
				}
				line := bandwidth.NewLine(20_000)
				x := newWorld(t, site(pages), seeds, func(x *world) {
					x.cfg.Governor = name
					x.deps.Fetch = lined(t, x, line)
				})
				x.worker.SetBandwidth(20_000)
				changes := 0
				err := x.run(func() bool {
					changes++
					switch changes {
					case 40:
						line.SetRate(0)
						x.worker.SetBandwidth(0)
					case 41:
						line.SetRate(30_000)
						x.worker.SetBandwidth(30_000)
					}
					return x.idle()
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := x.outcomes(); got[link.OutcomeOK] != hosts*pages || len(got) != 1 {
					t.Errorf("outcomes %v, want %d ok", got, hosts*pages)
				}
				for url, n := range x.asked {
					if n != 1 {
						t.Errorf("%s was asked for %d times", url, n)
					}
				}
				s := x.worker.Stats()
				if name != bandwidth.None && (s.Admitted == 0) || name == bandwidth.Ours && (s.Passed != 0 || s.Known == 0) {
					t.Errorf("%d admitted, %d passed, %d known", s.Admitted, s.Passed, s.Known)
				}
				if s.InFlight != 0 {
					t.Errorf("%d visits never ended", s.InFlight)
				}
			})
		})
	}
}

// lined is the world's fetcher over a line.
func lined(t *testing.T, x *world, line *bandwidth.Line) *fetch.Fetcher {
	f, err := fetch.New(fetch.Config{
		UserAgent: "apoidea/test", AllowPrivate: true, Resolver: resolver{}, MaxBody: testMaxBody, Line: line,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return x.listener.dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestGovernedOrder: under a cap that lets one fetch run at a time, what the job fetches first
// comes before all else, and then the smaller depth, whatever came first.
func TestGovernedOrder(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var seeds, order []string
		for i := range 5 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.example/", i))
		}
		page := site(1)
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/p0" {
				order = append(order, r.Host) // one at a time
			}
			page(rw, r)
		}, seeds, func(x *world) { x.cfg.Governor, x.cfg.Fetchers = bandwidth.Ours, 1 },
			withSpec(func(m *wire.JobSpec) { m.First = []string{"http://h1.example/*"} }))
		for i, seed := range seeds {
			x.owner(link.Host(seed)).add(seed+"p0", uint32(5-i), 0, link.KindPage)
		}
		x.worker.SetBandwidth(1000)
		x.crawl()
		if want := []string{"h1.example", "h4.example", "h3.example", "h2.example", "h0.example"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}
