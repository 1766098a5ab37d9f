package trap

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/trap/traptest"
)

// site makes pages by their URL, as a server does.
type site struct {
	name string
	// page returns the body of a URL; not ok is an error, as of what is not there.
	page func(s *maker, path, query string) (body string, ok bool)
	// plain bodies are no HTML.
	plain  func(path string) bool
	answer func(path string) traptest.Answer // in place of page
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

// crawled is the outcome of a crawl of a site.
type crawled struct {
	asked, stopped, idle int
	why                  string
	urls                 map[string]bool // that were found
	got                  map[string]bool // and asked for
	texts                map[uint64]bool // of the pages
}

// crawl crawls a site breadth first, as one worker does, until nothing is left or most requests
// were made.
func crawl(t *testing.T, s site, most int) crawled {
	t.Helper()
	return crawlBy(t, s, most, Default)
}

func crawlBy(t *testing.T, s site, most int, rules Rules) crawled {
	t.Helper()
	start := made + cmp.Or(s.start, "/")
	var state State
	var x extract.Extractor
	var page extract.Page
	out := crawled{urls: map[string]bool{start: true}, got: make(map[string]bool), texts: make(map[uint64]bool)}
	queue, late := []string{start}, make(map[string]bool) // late came after others once
	depth, behind := map[string]uint32{start: 0}, make(map[string]bool)
	for ; len(queue) > 0 && out.asked < most; queue = queue[1:] {
		url := queue[0]
		rule, last := state.Verdict(url, depth[url])
		if rule != None {
			state.Leave(rule, url)
			out.why = rules.Text(rule)
			if s.idle == "" || !strings.Contains(url, s.idle) {
				out.stopped++
			} else {
				out.idle++
			}
			continue
		}
		if (last || behind[url]) && !late[url] {
			late[url] = true
			queue = append(queue, url)
			continue
		}
		out.asked++
		out.got[url] = true
		path, query, _ := strings.Cut(link.PathQuery(url), "?")
		body, header, answer := s.get(url, path, query)
		if answer.Status >= 400 {
			continue
		}
		if err := x.Document(&page, url, header, []byte(body), extract.Options{}); err != nil {
			t.Fatal(err)
		}
		p := Page{URL: url, Text: page.Text, Masked: page.Masked, Depth: depth[url]}
		if answer.Location != "" {
			p.Text, p.Masked = 0, 0
			page.Links = []link.Link{{URL: resolve(t, url, answer.Location)}}
		} else if p.Text == 0 {
			sum := sha256.Sum256([]byte(body))
			p.Text = binary.LittleEndian.Uint64(sum[:])
			p.Masked = p.Text
		}
		known := state.Known(p.Masked)
		for _, l := range page.Links {
			if link.Host(l.URL) != link.Host(url) || out.urls[l.URL] || Structure(l.URL) {
				continue
			}
			out.urls[l.URL] = true
			depth[l.URL] = depth[url] + 1
			p.New = append(p.New, l.URL)
			behind[l.URL] = known
			queue = append(queue, l.URL)
		}
		out.texts[p.Text] = true
		state.Observe(&p, &rules)
		if out.asked%500 == 0 {
			b := state.Append(nil)
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

// TestInnocents: every text of a site that ends is fetched, however alike its pages are.
func TestInnocents(t *testing.T) {
	for _, s := range some(innocents) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got, all := crawl(t, s, 50_000), crawlBy(t, s, 50_000, Rules{})
			t.Logf("%d of %d URLs asked for, %d texts", got.asked, len(all.urls), len(got.texts))
			if len(got.texts) != len(all.texts) || all.asked < 300 {
				t.Errorf("%d of %d texts, %d URLs left: %s", len(got.texts), len(all.texts), got.stopped, got.why)
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
	if got.asked > alone.asked+6100 || got.stopped == 0 {
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
