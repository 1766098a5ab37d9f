package novelty

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/frame"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty/noveltytest"
)

// site makes pages by their URL, as a server does.
type site struct {
	name string
	// page returns the body of a URL; not ok is an error, as of what is not there.
	page func(s *maker, path, query string) (body string, ok bool)
	// plain bodies are no HTML.
	plain  func(path string) bool
	answer func(path string) noveltytest.Answer // in place of page
	start  string
	idle   string // is part of the URLs of pages that all say the same and lead to nothing: those of an innocent site may be left
	most   int    // pages that may be asked for of a trap; of an innocent site: 0, and all of its pages are to be
}

// maker makes words that hang on a seed alone.
type maker struct{ rnd *rand.Rand }

func seeded(seed string) *maker {
	h := fnv.New64a()
	h.Write([]byte(seed))
	return &maker{rand.New(rand.NewPCG(h.Sum64(), 1))}
}

func (m *maker) word() string {
	b := make([]byte, 3+m.rnd.IntN(7))
	for i := range b {
		b[i] = byte('a' + m.rnd.IntN(26))
	}
	return string(b)
}

func (m *maker) words(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = m.word()
	}
	return strings.Join(list, " ")
}

func a(href, text string) string { return `<a href="` + href + `">` + text + "</a> " }

const nav = `<ul><li><a href="/">Home</a><li><a href="/about">About us</a><li><a href="/contact">Contact</a></ul>`

const lorem = `<p>Welcome to our little shop, where you find everything that you need for a good life, at small prices, with fast delivery to your home
on every day of the week, and with a smile that costs nothing at all.</p>`

// crawled is what a crawl of a site came to.
type crawled struct {
	asked, stopped, idle int
	share                float64
	why                  string
	urls                 map[string]bool // that were found
	got                  map[string]bool // and asked for
}

// crawl goes through a site breadth first, as one worker does, until nothing is left or the site
// has been asked most times.
func crawl(t *testing.T, s site, most int) crawled {
	t.Helper()
	start := made + cmp.Or(s.start, "/")
	var state State
	var x extract.Extractor
	var page extract.Page
	var frames frame.Hosts
	out := crawled{urls: map[string]bool{start: true}, got: make(map[string]bool)}
	queue, late := []string{start}, make(map[string]bool) // late had to wait for the others once
	doubted := make(map[string]bool)
	for ; len(queue) > 0 && out.asked < most; queue = queue[1:] {
		url := queue[0]
		v := state.Verdict(url, DefaultPages)
		if v.Stop {
			if s.idle == "" || !strings.Contains(url, s.idle) {
				out.stopped++
			} else {
				out.idle++
			}
			out.why = v.Why
			continue
		}
		if (v.Last || doubted[url]) && !late[url] {
			late[url] = true
			queue = append(queue, url)
			continue
		}
		out.asked++
		out.got[url] = true
		path, query, _ := strings.Cut(link.PathQuery(url), "?")
		body, header, answer := s.get(url, path, query)
		p := Page{URL: url, Failed: answer.Status >= 400, Redirect: answer.Location != ""}
		if !p.Failed {
			if err := x.Document(&page, url, header, []byte(body), extract.Options{}); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(answer.Type, "text/html") && !p.Redirect {
				p.Own = frames.Own(link.Host(url), page.Terms)
			}
			if p.Redirect {
				page.Links = []link.Link{{URL: resolve(t, url, answer.Location)}}
			}
			if sum := sha256.Sum256([]byte(body)); p.Own.Words == 0 {
				p.Own = frame.Body(sum[:])
			}
			doubts := state.Doubts(url, p.Own, DefaultPages)
			for _, l := range page.Links {
				if link.Host(l.URL) != link.Host(url) {
					continue
				}
				p.Links++
				if !out.urls[l.URL] {
					out.urls[l.URL] = true
					p.New++
					doubted[l.URL] = doubts
					if len(p.Brought) < MaxBrought {
						p.Brought = append(p.Brought, l.URL)
					}
					queue = append(queue, l.URL)
				}
			}
		}
		state.Observe(p, DefaultPages)
		if b := state.Append(nil); out.asked%500 == 0 {
			if len(b) > MaxBytes {
				t.Fatalf("a state of %d bytes, at most %d", len(b), MaxBytes)
			}
			again, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			state = *again // as after a restart
		}
	}
	out.share = state.Share(DefaultPages)
	return out
}

// resolve is where a redirect leads.
func resolve(t *testing.T, url, location string) string {
	base, err := link.NewBase(url)
	if err != nil {
		t.Fatal(err)
	}
	to, err := base.AppendResolve(nil, []byte(location))
	if err != nil {
		t.Fatal(err)
	}
	return string(to)
}

// some is all sites with --full, and every fourth in the default tier.
func some[S any](all []S) (few []S) {
	if os.Getenv("APOIDEA_FULL") != "" {
		return all
	}
	for i := 0; i < len(all); i += 4 {
		few = append(few, all[i])
	}
	return few
}

// TestTraps: each family of sites without end is left after a bounded number of pages.
func TestTraps(t *testing.T) {
	for _, s := range some(traps) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got := crawl(t, s, 30_000)
			t.Logf("%d asked, %d left: %s", got.asked, got.stopped, got.why)
			if got.asked > s.most || got.stopped == 0 {
				t.Errorf("%d pages asked for, %d left; want at most %d, and some left", got.asked, got.stopped, s.most)
			}
		})
	}
}

// TestInnocents: no page of a site that ends is left, however alike its pages are.
func TestInnocents(t *testing.T) {
	for _, s := range some(innocents) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got := crawl(t, s, 50_000)
			t.Logf("%d asked; came %.2f of the way to a trap", got.asked, got.share)
			if got.stopped > 0 || got.asked+got.idle != len(got.urls) || got.asked < 900 {
				t.Errorf("%d of %d URLs asked for, %d left: %s", got.asked, len(got.urls), got.stopped, got.why)
			}
		})
	}
}

// TestTrapOnASite: a calendar on a real site is left, and no page of the site is lost to it.
func TestTrapOnASite(t *testing.T) {
	t.Parallel()
	docs := innocents[slices.IndexFunc(innocents, func(s site) bool { return s.name == "documentation" })]
	cal := traps[slices.IndexFunc(traps, func(s site) bool { return s.name == "calendar" })]
	alone := crawl(t, docs, 50_000)
	both := site{page: func(s *maker, path, query string) (string, bool) {
		if strings.HasPrefix(path, "/cal/") {
			return cal.page(s, path, query)
		}
		body, ok := docs.page(s, path, query)
		return body + a("/cal/2024/1", "calendar"), ok
	}}
	got := crawl(t, both, 50_000)
	t.Logf("%d asked, %d left: %s", got.asked, got.stopped, got.why)
	if got.asked > alone.asked+1500 || got.stopped == 0 {
		t.Errorf("%d asked beside %d pages of the site, %d left", got.asked-alone.asked, alone.asked, got.stopped)
	}
	for url := range alone.urls {
		if !got.urls[url] {
			t.Fatalf("%s is lost", url)
		}
	}
}

func numberIn(path string) (n int) {
	_, err := fmt.Sscanf(path[strings.LastIndexByte(path, '/')+1:], "%d", &n)
	if err != nil {
		return 0
	}
	return n
}
