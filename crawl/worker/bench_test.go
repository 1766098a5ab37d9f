package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// endless is an owner whose hosts have no end.
type endless struct {
	id job.ID
	n  atomic.Int64
}

func (o *endless) OwnerOf(string) string { return "owner" }

func (o *endless) Session(_ context.Context, _ string, m *wire.Session) (*wire.SessionReply, error) {
	reply := &wire.SessionReply{TtlMs: 8000}
	for _, work := range m.GetHosts() {
		if work.GetWant() == 0 {
			continue
		}
		g := &wire.Grant{Host: work.GetHost(), Epoch: &wire.Epoch{Counter: 1, Peer: []byte("owner")}, JobIds: [][]byte{o.id[:]}, More: true}
		for range work.GetWant() {
			g.Url = append(g.Url, fmt.Appendf(nil, "http://%s/%d", work.GetHost(), o.n.Add(1)))
		}
		reply.Grants = append(reply.Grants, g)
	}
	return reply, nil
}

// instant answers at once, with an empty page.
type instant struct{ addr netip.AddrPort }

func (f instant) Get(_ context.Context, req *fetch.Request) (*fetch.Response, error) {
	if err := req.Permit(f.addr.Addr()); err != nil {
		return nil, err
	}
	status := http.StatusOK
	if link.PathQuery(req.URL) == "/robots.txt" {
		status = http.StatusNotFound
	}
	return &fetch.Response{URL: req.URL, Status: status, Proto: "HTTP/1.1", Addr: f.addr, Start: time.Now()}, nil
}

// BenchmarkFetchers is what a page costs a worker whose sites, owner and archive take no time: the
// way from the frontier to the report.
func BenchmarkFetchers(b *testing.B) {
	x := newWorld(b, nil, []string{"http://a.example/"}, func(x *world) {
		x.cfg.Politeness.Delay, x.cfg.MaxInFlight, x.cfg.Sessions.Capacity, x.cfg.Fetchers = 0, 1<<12, 1<<16, 16
		x.deps.Owners, x.deps.Fetch = &endless{id: x.spec.ID}, instant{netip.MustParseAddrPort("127.0.0.1:80")}
		x.deps.Archive, x.deps.Content, x.deps.Clock = nothing{}, nothing{}, nil
		x.cfg.StopTimeout = time.Second
	})
	done, left := make(chan struct{}), atomic.Int64{}
	left.Store(int64(b.N))
	x.worker.deps.Events = func(Event) {
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.worker.Run(ctx) }()
	b.ResetTimer()
	x.worker.Offer("owner", hostNames(64))
	<-done
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func hostNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("h%d.example", i))
	}
	return names
}

// BenchmarkPermit is what it costs to be let through right before a request, while others are let
// through as well.
func BenchmarkPermit(b *testing.B) {
	w := newWorld(b, nil, []string{"http://a.example/"}, func(x *world) { x.deps.Clock = nil }).worker
	v := visiting(w, "a.example")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := v.Permit(w.clock.Now()); err != nil {
				b.Error(err)
			}
		}
	})
}
