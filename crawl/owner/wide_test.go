package owner_test

import (
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// wide are links to the front pages of n hosts.
func wide(from, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://n%d.example/", from+i))
	}
	return urls
}

// TestNewHostsAreNotScanned: of a host that is new nothing is searched, neither in the store nor among what the step has written.
func TestNewHostsAreNotScanned(t *testing.T) {
	const hosts = 500
	s := newScene(t, nil)
	s.check = false
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 1)
	before := s.store.Scans
	s.tell("w", "a.example", g.GetEpoch(), s.got("http://a.example/", link.OutcomeOK, wide(0, hosts)...))
	if n := s.store.Scans - before; n > hosts/10 {
		t.Errorf("%d scans of the store for a page that links to %d new hosts", n, hosts)
	}
	if got := s.owner.Totals().HostsOwned; got != 1+hosts {
		t.Errorf("%d hosts, want %d", got, 1+hosts)
	}
	if err := s.owner.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkNewHosts takes pages that link to hosts of which nothing is known. What a link costs does not hang on how many there are.
func BenchmarkNewHosts(b *testing.B) {
	for _, n := range []int{256, 2048, 16384} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			next := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				p, id := benchPeer(b, &wire.JobSpec{}, owner.Config{})
				f := &wire.Fetched{Job: id[:], Url: []byte("http://h0.example/"), Outcome: uint32(link.OutcomeOK), Status: 200, FetchedMs: 1, RecordId: make([]byte, 16)}
				for _, url := range wide(next, n) {
					f.Links = append(f.Links, []byte(url))
				}
				next += n
				m := &wire.Session{Incarnation: 1, Seq: 1, Hosts: []*wire.HostWork{{Host: "h0.example", Fetched: []*wire.Fetched{f}}}}
				b.StartTimer()
				p.step(epochStart, func(o *owner.Owner) { o.Session("w", m) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/link")
		})
	}
}
