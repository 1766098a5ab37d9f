package owner_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

func benchPeer(b *testing.B, spec *wire.JobSpec, cfg owner.Config) (*peer, [16]byte) {
	jobs := jobTable{}
	spec.Scope, spec.Seeds = []string{"*.example"}, [][]byte{[]byte("http://h0.example/")}
	id := jobs.add(b, spec)
	cfg.Self = "self"
	p := newPeer(b, cfg, everything(), jobs, epochStart)
	p.check, p.store.Forgetful = false, true
	return p, id
}

// only owns one host.
type only struct{ key ring.Key }

func (o only) Mine(key ring.Key) bool { return key == o.key }

// BenchmarkLinks takes batches of 256 links of which one in sixteen is new, as of a crawl that
// knows most of its site.
func BenchmarkLinks(b *testing.B) {
	for _, known := range []struct {
		name string
		max  int
	}{{"remembered", 1 << 17}, {"looked up", 16}} {
		b.Run(known.name, func(b *testing.B) {
			p, id := benchPeer(b, &wire.JobSpec{}, owner.Config{MaxKnown: known.max})
			n := 0
			batch := func() *wire.Links {
				urls := make([]string, 256)
				for i := range urls {
					page := i
					if i%16 == 0 {
						n++
						page = 1000 + n
					}
					urls[i] = fmt.Sprintf("http://h%d.example/some/folder/page%d.html", i%8, page)
				}
				return links(id, 3, urls...)
			}
			p.step(epochStart, func(o *owner.Owner) { o.Links(batch()) })
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				m := batch()
				b.StartTimer()
				p.step(epochStart, func(o *owner.Owner) { o.Links(m) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/link")
		})
	}
}

// BenchmarkSession crawls pages with five new links each, in windows of 64 reported in eights, on
// one host: everything the owner does for a page.
func BenchmarkSession(b *testing.B) {
	for _, c := range []struct {
		name    string
		foreign bool
		spec    *wire.JobSpec
	}{
		{"own links", false, &wire.JobSpec{}},
		{"foreign links", true, &wire.JobSpec{}},
		{"depth limit and budget", false, &wire.JobSpec{HasMaxDepth: true, MaxDepth: 1 << 30, MaxPages: 1 << 40}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, id := benchPeer(b, c.spec, owner.Config{})
			if c.foreign {
				p.ring = only{ring.HostKey("h0.example")}
				p.open(epochStart)
			}
			w := newWorker("self")
			next := 0
			for range 64 {
				p.step(epochStart, func(o *owner.Owner) { o.Links(links(id, 0, fmt.Sprintf("http://h0.example/seed%d", next))) })
				next++
			}
			now, pages := epochStart, 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				l := w.link(p)
				for len(l.leases) == 0 || len(l.leases["h0.example"].queue) == 0 {
					now = now.Add(time.Millisecond)
					talk(b, p, w, now, 64)
				}
				for range min(8, len(l.leases["h0.example"].queue)) {
					w.fetch(p, "h0.example", now, func(k task) *wire.Fetched {
						f := &wire.Fetched{Job: id[:], Url: []byte(k.url), Outcome: uint32(link.OutcomeOK), Status: 200, Size: 38_000, Digest: make([]byte, 32), Mime: "text/html", Etag: `"5f3b-5e1c"`}
						for i := range 5 {
							next++
							host := "h0.example"
							if c.foreign && i > 1 {
								host = "h1.example"
							}
							f.Links = append(f.Links, fmt.Appendf(nil, "http://%s/some/folder/page%d.html", host, next))
						}
						return f
					})
					pages++
				}
				m := w.session(p, 64)
				b.StartTimer()
				var reply *wire.SessionReply
				ready := p.stepNoWait(now, func(o *owner.Owner) { reply = o.Session(w.name, m) })
				b.StopTimer()
				w.receive(p, now, m, reply, nil)
				settleBench(p, w, now, ready)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pages)/1000, "us/page")
		})
	}
}

// talk is one session with everything that follows from it.
func talk(tb testing.TB, p *peer, w *workerSim, now time.Time, want uint32) *wire.SessionReply {
	tb.Helper()
	m := w.session(p, want)
	var reply *wire.SessionReply
	ready := p.step(now, func(o *owner.Owner) { reply = o.Session(w.name, m) })
	w.receive(p, now, m, reply, nil)
	settleBench(p, w, now, ready)
	return reply
}

// settleBench answers what a step asks for: the worker takes every host, budgets are endless.
func settleBench(p *peer, w *workerSim, now time.Time, ready owner.Ready) {
	for range 4 {
		for _, place := range ready.Places {
			r := p.step(now, func(o *owner.Owner) { o.Placed(place.Host, owner.Placement{Worker: w.name}) })
			for _, offer := range r.Offers {
				w.link(p).offers = append(w.link(p).offers, offer.Hosts...)
			}
		}
		for _, offer := range ready.Offers {
			w.link(p).offers = append(w.link(p).offers, offer.Hosts...)
		}
		for _, d := range ready.Draws {
			p.step(now, func(o *owner.Owner) {
				o.Drawn(d, &wire.JobReply{Pages: d.Draw.GetDrawnPages() + d.Draw.GetPages(), Bytes: d.Draw.GetDrawnBytes() + d.Draw.GetBytes()})
			})
		}
		for _, k := range p.owner.Outbox(1 << 20) {
			p.step(now, func(o *owner.Owner) { o.Sent([]uint64{k.ID}) })
		}
		ready = p.step(now, nil)
	}
}

// BenchmarkHosts says what a host with one pending URL costs in memory.
func BenchmarkHosts(b *testing.B) {
	const hosts = 4_000 // as many as memory holds
	for b.Loop() {
		p, id := benchPeer(b, &wire.JobSpec{}, owner.Config{})
		var before, after runtime.MemStats
		for i := range hosts {
			p.step(epochStart, func(o *owner.Owner) { o.Links(links(id, 0, fmt.Sprintf("http://h%d.example/", i))) })
		}
		store := p.store
		runtime.GC()
		runtime.ReadMemStats(&before)
		p.owner, p.store = nil, nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(before.HeapAlloc-after.HeapAlloc)/hosts, "B/host")
		runtime.KeepAlive(store)
	}
}

// BenchmarkWaits is what a status costs the owner that has as many hosts in memory as it has room
// for: of all of them nothing is fetched for a while, or of none.
func BenchmarkWaits(b *testing.B) {
	for _, rests := range []bool{true, false} {
		b.Run(fmt.Sprintf("rests=%v", rests), func(b *testing.B) {
			const hosts = 4_000 // as many as memory holds
			p, id := benchPeer(b, &wire.JobSpec{}, owner.Config{})
			urls := wide(0, hosts)
			p.step(epochStart, func(o *owner.Owner) {
				for list := range slices.Chunk(urls, wire.MaxLinks) {
					o.Links(links(id, 1, list...))
				}
			})
			if rests {
				for list := range slices.Chunk(urls, 1000) {
					m := &wire.Session{Incarnation: 1}
					for _, url := range list {
						f := &wire.Fetched{Job: id[:], Url: []byte(url), Outcome: uint32(link.OutcomeConnect), FetchedMs: 1}
						m.Hosts = append(m.Hosts, &wire.HostWork{Host: link.Host(url), Fetched: []*wire.Fetched{f}})
					}
					p.step(epochStart, func(o *owner.Owner) { o.Session("w", m) })
				}
			}
			waits, _ := p.owner.Waits(epochStart)
			if rests != (len(waits) == 1 && waits[0].Hosts == hosts) {
				b.Fatalf("%+v", waits)
			}
			for b.Loop() {
				p.owner.Waits(epochStart)
				p.owner.AllCounts()
			}
		})
	}
}
