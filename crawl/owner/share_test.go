package owner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
)

// says has a page say something of its own.
func says(f *wire.Fetched) *wire.Fetched {
	sum := link.Hash([16]byte{}, string(f.GetUrl())) | 2
	f.Text, f.Masked = sum, sum
	return f
}

// lists answers for a sitemap with what it names, of one kind.
func (s *scene) lists(url string, kind link.Kind, names ...string) *wire.Fetched {
	f := s.got(url, link.OutcomeOK, names...)
	f.Kind, f.LinkKind = uint32(link.KindSitemap), []byte(strings.Repeat(string(rune(kind)), len(names)))
	return f
}

// TestSitemapsWait: sitemaps are asked for as their pages are fetched, and in the end all of both
// are.
func TestSitemapsWait(t *testing.T) {
	const sitemaps, each = 16, 1000
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 400) })
	s.check = false // reads everything with each step
	s.post(0, "http://a.example/")
	most := int64(0)
	asked := s.crawl(host, 20_000, func(url string) *wire.Fetched {
		most = max(most, s.owner.Totals().URLsPending)
		n := 0
		switch {
		case strings.HasSuffix(url, ".example/"):
			f := s.got(url, link.OutcomeOK)
			for i := range sitemaps {
				f.Links = append(f.Links, fmt.Appendf(nil, "http://a.example/sitemap%d.xml", i))
				f.LinkKind = append(f.LinkKind, byte(link.KindSitemap))
			}
			return says(f)
		case strings.Contains(url, "sitemap"):
			_, _ = fmt.Sscanf(url, "http://a.example/sitemap%d.xml", &n)
			var names []string
			for i := range each {
				names = append(names, fmt.Sprintf("http://a.example/of%d/%d", n, i))
			}
			return s.lists(url, link.KindPage, names...)
		default:
			return says(s.got(url, link.OutcomeOK))
		}
	})
	if len(asked) != 1+sitemaps*(1+each) {
		t.Errorf("%d requests, want %d", len(asked), 1+sitemaps*(1+each))
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
	if most > 12_000 {
		t.Errorf("%d URLs waited at a time", most)
	}
}

// TestSitemapsOfSitemaps: indexes that name nothing but more of them end as pages do that say
// nothing.
func TestSitemapsOfSitemaps(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { rules(m, 40) })
	s.post(0, "http://a.example/")
	n := 0
	asked := s.crawl(host, 5000, func(url string) *wire.Fetched {
		var more []string
		for range 20 {
			n++
			more = append(more, fmt.Sprintf("http://a.example/sitemap%d.xml", n))
		}
		if strings.Contains(url, "sitemap") {
			return s.lists(url, link.KindSitemap, more...)
		}
		f := says(s.got(url, link.OutcomeOK, more...))
		f.LinkKind = []byte(strings.Repeat(string(rune(link.KindSitemap)), len(more)))
		return f
	})
	if len(asked) > 150 {
		t.Errorf("%d requests", len(asked))
	}
	if f := s.fate("http://a.example/sitemap700.xml"); f.Final.Outcome != link.OutcomeTrap || !strings.Contains(f.Final.Detail, "rule ") {
		t.Errorf("one that was left: %+v", f.Final)
	}
}

// TestOpenURLsHaveAShare: long URLs of a host take no more of the disk than its share, and are told
// to have been cut.
func TestOpenURLsHaveAShare(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/")
	long := strings.Repeat("x", 7900)
	n, bytes := 0, 0
	s.crawl(host, 40, func(url string) *wire.Fetched {
		f := s.got(url, link.OutcomeOK)
		for range 400 {
			n++
			f.Links = append(f.Links, fmt.Appendf(nil, "http://a.example/%s/%d", long, n))
		}
		return says(f)
	})
	totals := s.owner.Totals()
	if bytes = int(totals.URLsPending) * len(long); bytes > 80<<20 {
		t.Errorf("%d MiB of URLs wait", bytes>>20)
	}
	if totals.LinksCut == 0 || totals.LinksCut+totals.URLsSeen != int64(n)+1 {
		t.Errorf("%d links, %d taken, %d cut", n, totals.URLsSeen, totals.LinksCut)
	}
}

// TestBytesOfAHost: a host's bodies end where its share of bytes does, within a body of each that
// was out.
func TestBytesOfAHost(t *testing.T) {
	const share, body = 1 << 20, 10_000
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxHostBytes = share })
	s.post(0, pages(host, 99)...)
	s.post(0, "http://a.example/more")
	asked := s.crawl(host, 500, func(url string) *wire.Fetched {
		f := s.got(url, link.OutcomeOK, url+"/a", url+"/b")
		f.Size = body
		return f
	})
	if len(asked) < share/body || len(asked) > share/body+2 {
		t.Errorf("%d bodies of %d bytes, of a share of %d", len(asked), body, share)
	}
	if f := s.fate(asked[len(asked)-1] + "/b"); f.Final.Outcome != link.OutcomeOutOfBudget || !strings.Contains(f.Final.Detail, "--max-bytes-per-host") {
		t.Errorf("one that was left: %+v", f.Final)
	}
}

// TestRequestsOfAFoundHost: a host that no seed names has 10,000 requests, and more for each URL
// that others name.
func TestRequestsOfAFoundHost(t *testing.T) {
	fullOnly(t)
	crawl := func(seed bool, named int) int {
		s := newScene(t, func(m *wire.JobSpec, c *owner.Config) {
			rules(m, 400)
			c.MaxRequests = 20_000
			if !seed {
				m.Seeds = [][]byte{[]byte("http://seed.example/")}
			}
		})
		s.check = false
		s.post(0, "http://a.example/")
		for i := range named {
			s.post(1, fmt.Sprintf("http://a.example/named%d", i))
		}
		made := 0
		return len(s.crawl(host, 45_000, func(url string) *wire.Fetched {
			f := s.got(url, link.OutcomeOK)
			for range 3 {
				made++
				f.Links = append(f.Links, fmt.Appendf(nil, "http://a.example/w%d", made))
			}
			return says(f)
		}))
	}
	for _, c := range []struct {
		seed        bool
		named, want int
	}{{false, 0, 10_100}, {false, 20, 12_100}, {false, 200, 20_000}, {true, 0, 20_000}} {
		if n := crawl(c.seed, c.named); n < c.want || n > c.want+300 {
			t.Errorf("seed %v, %d URLs named: %d requests, want %d", c.seed, c.named, n, c.want)
		}
	}
}
