package owner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// says has a page say something of its own.
func says(f *wire.Fetched) *wire.Fetched {
	sum := link.Hash([16]byte{}, string(f.GetUrl())) | 2
	f.TextPrint, f.AllPrint, f.OwnWords, f.OwnAll, f.OwnCount, f.OwnLinks = sum, sum, sum, sum, 20, uint32(len(f.GetLinks()))
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
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Novelty = 400 })
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
	if err := s.owner.Check(); err != nil {
		t.Error(err)
	}
	if most > 12_000 {
		t.Errorf("%d URLs waited at a time", most)
	}
}

// TestSitemapsOfSitemaps: indexes that name nothing but more of them end as pages do that say
// nothing.
func TestSitemapsOfSitemaps(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Novelty = 40 })
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
	if f := s.fate("http://a.example/sitemap700.xml"); f.Final.Outcome != link.OutcomeTrap || !strings.Contains(f.Final.Detail, "more sitemaps") {
		t.Errorf("one that was left: %+v", f.Final)
	}
}

// TestOpenURLsHaveAShare: long URLs of a host take no more of the disk than its share, and are told
// to have been cut.
func TestOpenURLsHaveAShare(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Novelty = 0 })
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

// TestGrowthOfAHost: pages of made-up words that lead to one another, and to ever more, have a
// tenth of the requests that a host may have; a site of many pages that ends, and one whose pages
// others name, have all.
func TestGrowthOfAHost(t *testing.T) {
	fullOnly(t)
	crawl := func(size int) (asked []string, s *scene) {
		rnd := rand.New(rand.NewPCG(1, 2))
		s = newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Novelty, c.MaxRequests = 400, 100_000 })
		s.check = false
		s.post(0, "http://a.example/")
		made := 0
		asked = s.crawl(host, 45_000, func(url string) *wire.Fetched {
			f := s.got(url, link.OutcomeOK)
			for range rnd.IntN(8) { // most of them are known
				f.Links = append(f.Links, fmt.Appendf(nil, "http://a.example/w%d", rnd.IntN(min(made+1, size))))
			}
			for range 5 {
				made++
				f.Links = append(f.Links, fmt.Appendf(nil, "http://a.example/w%d", made%size))
			}
			return says(f)
		})
		return asked, s
	}
	asked, s := crawl(1 << 30)
	if len(asked) < 9000 || len(asked) > 12_000 {
		t.Errorf("endless: %d requests", len(asked))
	}
	d, _ := s.owner.Host(host)
	if !strings.Contains(s.fate("http://a.example/w45000").Final.Detail, "--max-requests-per-host 0") || d.Jobs[0].Outcomes[link.OutcomeOutOfBudget] == 0 {
		t.Errorf("%+v", d.Jobs[0])
	}
	if asked, _ = crawl(30_000); len(asked) != 30_001 {
		t.Errorf("a site of 30,000 pages: %d requests", len(asked))
	}
}
