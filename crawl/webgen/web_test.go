package webgen

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"testing"
)

func smallWeb(seed uint64) *Web {
	cfg := DefaultConfig()
	cfg.Seed, cfg.Hosts, cfg.PagesPerHost, cfg.Links, cfg.PageBytes = seed, 4, 200, 12, 2000
	cfg.SlowLatency = 1
	return New(cfg)
}

// fingerprint hashes every response of a web.
func fingerprint(w *Web, seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var buf []byte
	for host := range w.cfg.Hosts {
		_, _ = h.Write(w.appendRobots(nil, host, ":80"))
		_, _ = h.Write(w.appendSitemap(nil, host, 0, ":80"))
		for n := range w.cfg.PagesPerHost {
			p := place{host, n}
			resp := w.respondPage(buf[:0], request{host: host, number: n, kind: w.kindOf(p)}, 9, ":80")
			fmt.Fprint(&h, resp.status, resp.header)
			_, _ = h.Write(resp.body)
			buf = resp.body
		}
	}
	return h.Sum64()
}

func TestSeedDecidesEverything(t *testing.T) {
	seed := maphash.MakeSeed()
	first := fingerprint(smallWeb(7), seed)
	if again := fingerprint(smallWeb(7), seed); again != first {
		t.Error("the same seed made another web")
	}
	if other := fingerprint(smallWeb(8), seed); other == first {
		t.Error("another seed made the same web")
	}
}

func TestPathsReadBack(t *testing.T) {
	w := smallWeb(1)
	for n := range w.cfg.PagesPerHost {
		path := string(appendPath(nil, n))
		if got, ok := w.parsePath(1, path); !ok || got != n {
			t.Fatalf("page %d: %s reads back as %d, %v", n, path, got, ok)
		}
	}
	for _, path := range []string{"", "/s1", "/s1/2.html", "/s0/0.html", "/s1/01.html", "/s8/200.html", "/s1/17.htm", "/s01/17.html", "/s1/17.html/"} {
		if n, ok := w.parsePath(1, path); ok {
			t.Errorf("%q reads as page %d", path, n)
		}
	}
}

func TestHostNames(t *testing.T) {
	w := smallWeb(1)
	for _, c := range []struct {
		name, header string
		host         int
		port         string
		ok           bool
	}{
		{"with port", "h2.web.localhost:8080", 2, ":8080", true},
		{"without port", "h0.web.localhost", 0, "", true},
		{"upper case", "H3.Web.Localhost:80", 3, ":80", true},
		{"beyond the last", "h4.web.localhost", 0, "", false},
		{"leading zero", "h02.web.localhost", 0, "", false},
		{"another domain", "h1.example.com", 0, "", false},
		{"an address", "127.0.0.1:80", 0, "", false},
		{"port that is none", "h1.web.localhost:x", 0, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, port, ok := w.parseHost(c.header)
			if ok != c.ok || ok && (host != c.host || port != c.port) {
				t.Errorf("parseHost(%q) = %d, %q, %v", c.header, host, port, ok)
			}
		})
	}
}

func TestRedirectsEnd(t *testing.T) {
	w := New(Config{Seed: 3, Hosts: 3, PagesPerHost: 500, RedirectShare: 0.5, CrossHostShare: 0.3})
	chains := map[int]int{}
	for n := range w.cfg.PagesPerHost {
		p := place{1, n}
		hops := 0
		for ; w.kindOf(p) == redirect; hops++ {
			p, _ = w.target(p)
		}
		chains[hops]++
	}
	for hops := range maxRank + 1 {
		if chains[hops] == 0 {
			t.Errorf("no chain of %d redirects", hops)
		}
	}
	if len(chains) != maxRank+1 {
		t.Errorf("chains by length: %v, want none beyond %d", chains, maxRank)
	}
}

func TestDuplicatesServeTheSameBytes(t *testing.T) {
	w := smallWeb(1)
	same, across := 0, 0
	for n := range w.cfg.PagesPerHost {
		p := place{0, n}
		of := w.body(p)
		if of == p {
			continue
		}
		if w.kindOf(of) != plain {
			t.Fatalf("page %d serves the body of %v, which does not serve it itself", n, of)
		}
		a := w.respondPage(nil, request{host: 0, number: n, kind: duplicate}, 0, "")
		b := w.respondPage(nil, request{host: of.host, number: of.page, kind: plain}, 0, "")
		if !bytes.Equal(a.body, b.body) {
			t.Fatalf("page %d and its original %v differ", n, of)
		}
		if of.host == 0 {
			same++
		} else {
			across++
		}
	}
	if same == 0 || across == 0 {
		t.Errorf("%d duplicates within the host and %d across; want some of both", same, across)
	}
}

func TestPageSizes(t *testing.T) {
	w := New(DefaultConfig())
	var total, least, most int
	const pages = 400
	for n := range pages {
		size := len(w.appendBody(nil, place{n % 16, n}, ":8080"))
		total += size
		most = max(most, size)
		if least == 0 || size < least {
			least = size
		}
	}
	mean, want := total/pages, w.cfg.PageBytes
	if mean < want*9/10 || mean > want*11/10 {
		t.Errorf("mean size %d, want about %d", mean, want)
	}
	if least > want*6/10 || most < want*14/10 {
		t.Errorf("sizes from %d to %d, want them spread around %d", least, most, want)
	}
}

func TestServingAllocatesNothingThatGrows(t *testing.T) {
	perPage := func(pages int) float64 {
		w := New(Config{Seed: 1, Hosts: 1000, PagesPerHost: pages, DuplicateShare: 0.1, RedirectShare: 0.03, ErrorShare: 0.02})
		buf := make([]byte, 0, 128<<10)
		n := 0
		return testing.AllocsPerRun(200, func() {
			n = (n + 7919) % pages
			p := place{n % 1000, n}
			if k := w.kindOf(p); k == plain || k == duplicate {
				buf = w.appendBody(buf[:0], w.body(p), ":8080")
			}
		})
	}
	for _, pages := range []int{1000, 1_000_000_000} {
		if got := perPage(pages); got != 0 {
			t.Errorf("%d pages a host: %.0f allocations a page, want 0", pages, got)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	w := New(DefaultConfig())
	var buf []byte
	n := 0
	for b.Loop() {
		n = (n + 1) % w.cfg.PagesPerHost
		buf = w.appendBody(buf[:0], place{0, n}, ":8080")
	}
	b.SetBytes(int64(w.cfg.PageBytes))
}
