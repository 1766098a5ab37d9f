package novelty

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
)

// domains are what the first pages of the hosts of a domain are, and whether the domain is a farm.
var domains = []struct {
	name string
	farm bool
	// page returns the body of a page of a host, of which there are as many.
	page  func(host string, n, page int) string
	pages int
}{
	{name: "one page each, that names its host", farm: true, pages: 1, page: func(host string, n, _ int) string {
		return "<h1>Welcome to " + host + "</h1>" + lorem + next(n, 5)
	}},
	{name: "five pages each, with a number of their own", farm: true, pages: 5, page: func(host string, n, page int) string {
		return fmt.Sprintf("<h1>Page %d</h1><p>Visitor %d</p>", page, n*7) + nav + lorem + next(n, 5)
	}},
	{name: "one page each, with other words in its links", farm: true, pages: 1, page: func(host string, n, _ int) string {
		return lorem + "<a href=/x>" + seeded(host).words(12) + "</a>" + next(n, 3)
	}},
	{name: "redirects to ever more hosts", farm: true, pages: 1, page: func(string, int, int) string { return "" }},
	{name: "a wiki in 900 languages", pages: 5, page: func(host string, n, page int) string {
		return nav + seeded(fmt.Sprint(host, page)).words(150) + next(n, 20)
	}},
	{name: "blogs whose posts stand in their links alone", pages: 3, page: func(host string, n, page int) string {
		return lorem + nav + fmt.Sprintf("<p>%d posts since %d", n%40, 1999+n%23) + "<a href=/post>" + seeded(fmt.Sprint(host, page)).words(40) + "</a>" + next(n, 2)
	}},
	{name: "blogs of which two in three are empty", pages: 2, page: func(host string, n, page int) string {
		if n%3 > 0 {
			return "<h1>Hello world</h1>" + lorem + next(n, 2)
		}
		return nav + seeded(fmt.Sprint(host, page)).words(150) + next(n, 2)
	}},
	{name: "shops of one front page and goods of their own", pages: 6, page: func(host string, n, page int) string {
		if page == 0 {
			return nav + lorem + next(n, 2)
		}
		return nav + lorem + "<h1>" + seeded(fmt.Sprint(host, page)).words(9) + "</h1>"
	}},
	{name: "pages of nothing but images", pages: 1, page: func(host string, n, _ int) string {
		return "<img src=/" + host + ".png>" + next(n, 2)
	}},
	{name: "hosts that a list names and that lead nowhere", pages: 1, page: func(string, int, int) string { return "<h1>Parked</h1>" + lorem }},
}

// next are links to further hosts of the domain.
func next(n, links int) (b string) {
	for i := range links {
		b += a(fmt.Sprintf("http://h%x.domain.example/", n*links+i+1), "more")
	}
	return b
}

// TestKin: a domain whose hosts say what others of it said gets no more hosts after a while; one whose hosts have anything of their own gets all.
func TestKin(t *testing.T) {
	const hosts = 900
	for _, d := range domains {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var k Kin
			var x extract.Extractor
			var page extract.Page
			full := 0
			for n := range hosts * map[bool]int{false: 1, true: 3}[d.farm] {
				host := fmt.Sprintf("h%x.domain.example", n)
				for i := range d.pages {
					url := fmt.Sprintf("http://%s/%d", host, i)
					if err := x.Document(&page, url, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte(d.page(host, n, i)), extract.Options{}); err != nil {
						t.Fatal(err)
					}
					brought := false
					for _, l := range page.Links {
						brought = brought || !bytes.Contains([]byte(l.URL), []byte(host))
					}
					if d.page(host, n, i) == "" {
						k.Observe(Said{Host: HostOf(host), Brought: true}, DefaultPages)
						continue
					}
					k.Observe(Said{Host: HostOf(host), All: page.Fingerprint.All, Words: page.Fingerprint.Words, Brought: brought}, DefaultPages)
				}
				if k.Full(DefaultPages) && full == 0 {
					full = n + 1
				}
				if n%100 == 0 {
					again, err := DecodeKin(k.Append(nil))
					if err != nil || len(k.Append(nil)) > MaxKinBytes {
						t.Fatalf("%d bytes: %v", len(k.Append(nil)), err)
					}
					k = *again // as after a restart
				}
			}
			t.Logf("full after %d hosts", full)
			if d.farm != (full > 0) || full > 2200 {
				t.Errorf("full after %d hosts; is it a farm: %v", full, d.farm)
			}
		})
	}
}

// TestKinComesBack: what is known of a domain is read as it was written, and of two states one is later.
func TestKinComesBack(t *testing.T) {
	var list [][]byte
	for _, n := range []int{0, 1, 100, 5000} {
		var k Kin
		for i := range n {
			k.Observe(Said{Host: uint32(i%300 + 1), All: uint64(i%400+2) << 9, Words: uint64(i%90 + 2), Brought: i%2 > 0}, DefaultPages) //nolint:gosec // small
		}
		want := k.Append(nil)
		again, err := DecodeKin(want)
		if err != nil || len(want) > MaxKinBytes || !bytes.Equal(again.Append(nil), want) {
			t.Fatalf("%d pages: %d bytes come back otherwise: %v", n, len(want), err)
		}
		for cut := range want {
			if _, err := DecodeKin(want[:cut]); err == nil {
				t.Fatalf("%d pages: cut at %d is taken", n, cut)
			}
		}
		list = append(list, want)
	}
	list = append(list, []byte("damaged"))
	for i, a := range list {
		for k, b := range list {
			if later := LaterKin(a, b); later != (k > i && k == len(list)-1 || i < len(list)-1 && i > k) {
				t.Errorf("%d is later than %d: %v", i, k, later)
			}
		}
	}
}

// FuzzDecodeKin: whatever a stranger sends is refused or bounded.
func FuzzDecodeKin(f *testing.F) {
	var k Kin
	for i := range 200 {
		k.Observe(Said{Host: uint32(i), All: uint64(i) << 9, Words: uint64(i)}, DefaultPages) //nolint:gosec // small
	}
	f.Add(k.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := DecodeKin(raw)
		if err != nil {
			return
		}
		k.Observe(Said{Host: 1, All: 2, Words: 3, Brought: true}, DefaultPages)
		if b := k.Append(nil); len(b) > MaxKinBytes {
			t.Errorf("%d bytes, at most %d", len(b), MaxKinBytes)
		} else if _, err := DecodeKin(b); err != nil {
			t.Error(err)
		}
	})
}
