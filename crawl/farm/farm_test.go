package farm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
)

// hostsInARow make a farm.
const hostsInARow = 400

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
		return lorem + "<a href=/x>" + words(host, 12) + "</a>" + next(n, 3)
	}},
	{name: "redirects to ever more hosts", farm: true, pages: 1, page: func(string, int, int) string { return "" }},
	{name: "a wiki in 900 languages", pages: 5, page: func(host string, n, page int) string {
		return nav + words(fmt.Sprint(host, page), 150) + next(n, 20)
	}},
	{name: "blogs whose posts stand in their links alone", pages: 3, page: func(host string, n, page int) string {
		return lorem + nav + fmt.Sprintf("<p>%d posts since %d", n%40, 1999+n%23) + "<a href=/post>" + words(fmt.Sprint(host, page), 40) + "</a>" + next(n, 2)
	}},
	{name: "blogs of which two in three are empty", pages: 2, page: func(host string, n, page int) string {
		if n%3 > 0 {
			return "<h1>Hello world</h1>" + lorem + next(n, 2)
		}
		return nav + words(fmt.Sprint(host, page), 150) + next(n, 2)
	}},
	{name: "shops of one front page and goods of their own", pages: 6, page: func(host string, n, page int) string {
		if page == 0 {
			return nav + lorem + next(n, 2)
		}
		return nav + lorem + "<h1>" + words(fmt.Sprint(host, page), 9) + "</h1>"
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

// TestFarm: a domain whose hosts say what others of it said gets no more hosts after a while; one
// whose hosts have anything of their own gets all.
func TestFarm(t *testing.T) {
	const hosts = 900
	for _, d := range domains {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var k Farm
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
						k.Observe(Said{Host: HostOf(host), Brought: true}, hostsInARow)
						continue
					}
					k.Observe(Said{Host: HostOf(host), All: page.Fingerprint.All, Words: page.Fingerprint.Words, Brought: brought}, hostsInARow)
				}
				if k.Full(hostsInARow) && full == 0 {
					full = n + 1
				}
				if n%100 == 0 {
					again, err := Decode(k.Append(nil))
					if err != nil || len(k.Append(nil)) > MaxBytes {
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

// TestComesBack: what is known of a domain is read as it was written, and of two states one is
// later.
func TestComesBack(t *testing.T) {
	var list [][]byte
	for _, n := range []int{0, 1, 100, 5000} {
		var k Farm
		for i := range n {
			k.Observe(Said{Host: uint32(i%300 + 1), All: uint64(i%400+2) << 9, Words: uint64(i%90 + 2), Brought: i%2 > 0}, hostsInARow) // small
		}
		want := k.Append(nil)
		again, err := Decode(want)
		if err != nil || len(want) > MaxBytes || !bytes.Equal(again.Append(nil), want) {
			t.Fatalf("%d pages: %d bytes come back otherwise: %v", n, len(want), err)
		}
		for cut := range want {
			if _, err := Decode(want[:cut]); err == nil {
				t.Fatalf("%d pages: cut at %d is taken", n, cut)
			}
		}
		list = append(list, want)
	}
	list = append(list, []byte("damaged"))
	for i, a := range list {
		for k, b := range list {
			if later := Later(a, b); later != (k > i && k == len(list)-1 || i < len(list)-1 && i > k) {
				t.Errorf("%d is later than %d: %v", i, k, later)
			}
		}
	}
}

// FuzzDecode: whatever a stranger sends is refused or bounded.
func FuzzDecode(f *testing.F) {
	var k Farm
	for i := range 200 {
		k.Observe(Said{Host: uint32(i), All: uint64(i) << 9, Words: uint64(i)}, hostsInARow) // small
	}
	f.Add(k.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := Decode(raw)
		if err != nil {
			return
		}
		k.Observe(Said{Host: 1, All: 2, Words: 3, Brought: true}, hostsInARow)
		if b := k.Append(nil); len(b) > MaxBytes {
			t.Errorf("%d bytes, at most %d", len(b), MaxBytes)
		} else if _, err := Decode(b); err != nil {
			t.Error(err)
		}
	})
}

const nav = `<ul><li><a href="/">Home</a><li><a href="/about">About us</a><li><a href="/contact">Contact</a></ul>`

const lorem = `<p>Welcome to our little shop, where you find everything that you need for a good life, at small prices, with fast delivery to your home
on every day of the week, and with a smile that costs nothing at all.</p>`

func a(href, text string) string { return `<a href="` + href + `">` + text + "</a> " }

// words makes up as many as are asked for, which hang on the seed alone.
func words(seed string, n int) string {
	rnd := rand.New(rand.NewPCG(uint64(HostOf(seed)), 1))
	var b strings.Builder
	for range n {
		for range 3 + rnd.IntN(7) {
			b.WriteByte(byte('a' + rnd.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// TestBrings: hosts that say something of their own and lead to ever more, and to none that is
// known, bring fewer and fewer; one link home, and a host brings what it likes.
func TestBrings(t *testing.T) {
	var f Farm
	brought, last := 0, 0
	for n := range 3000 {
		last = f.Brings(fmt.Sprintf("h%d.example", n), uint64(n)<<20|5, false, hostsInARow)
		brought += min(last, 50)
	}
	if last > 0 || brought > 20_000 {
		t.Errorf("3000 hosts brought %d, the last of them %d", brought, last)
	}
	if most := f.Brings("real.example", 0xabcdef<<9, true, hostsInARow); most < 1<<30 {
		t.Errorf("a host that leads home brings %d", most)
	}
	var one Farm
	for n := range 5000 { // a directory, each page of which leads to a site of its own
		if most := one.Brings("directory.example", uint64(n)<<20|5, false, hostsInARow); most < 1<<30 {
			t.Fatalf("page %d of a directory brings %d", n, most)
		}
	}
}
