package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/trust"
)

const (
	changingShare = 0.05   // of the pages
	ofWorker      = 10_000 // pages
	linksOfPage   = 20
)

// habit is how a page changes with each fetch.
type habit struct {
	name string
	goal bool
	page func(p *author, rng *rand.Rand) func() []byte // the responses of one page
}

var habits = []habit{
	{"a new text with each fetch", true, func(a *author, rng *rand.Rand) func() []byte {
		n := length(rng)
		return func() []byte { return html(a.text(rng, n), "new", rng.IntN(1e9)) }
	}},
	{"an advertisement of 3 % of the words", true, func(a *author, rng *rand.Rand) func() []byte {
		text := a.text(rng, length(rng))
		return func() []byte { return html(a.replace(rng, text, 0.03), "ad", rng.IntN(1e9)) }
	}},
	{"two versions, 10 % other words", true, versions(0.1)},
	{"two versions, 30 % other words", false, versions(0.3)},
	{"two versions without a common word", false, versions(1)},
}

// versions is the habit of pages with two versions, of which each fetch gets one at random.
func versions(other float64) func(a *author, rng *rand.Rand) func() []byte {
	return func(a *author, rng *rand.Rand) func() []byte {
		text := a.text(rng, length(rng))
		both := [2][]byte{html(text, "version", 0), html(a.replace(rng, text, other), "version", 1)}
		return func() []byte { return both[rng.IntN(2)] }
	}
}

// length draws the words of a page: 50 to 2,000, as many of each order of magnitude.
func length(rng *rand.Rand) int { return int(50 * math.Exp(rng.Float64()*math.Log(40))) }

// author writes pages with the words of this repository's documentation.
type author struct {
	words     []string
	extractor extract.Extractor
}

func newAuthor() (*author, error) {
	files, err := filepath.Glob("docs/*.md")
	a := new(author)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(raw)) {
			if !strings.ContainsAny(word, "<>&|") {
				a.words = append(a.words, word)
			}
		}
	}
	if err == nil && len(a.words) < 10_000 {
		err = errors.New("docs/*.md: too few words; run it in the root of the repository")
	}
	return a, err
}

// text returns n words: passages of 12, in random order.
func (a *author) text(rng *rand.Rand, n int) (text []string) {
	for len(text) < n {
		at := rng.IntN(len(a.words) - 12)
		text = append(text, a.words[at:at+12]...)
	}
	return text[:n]
}

// replace replaces a share of the words, in one place.
func (a *author) replace(rng *rand.Rand, text []string, share float64) []string {
	n := int(math.Ceil(share * float64(len(text))))
	at := rng.IntN(len(text) - n + 1)
	return slices.Concat(text[:at], a.text(rng, n), text[at+n:])
}

// html is a document of a text, with links, one of which depends on the fetch.
func html(text []string, name string, n int) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html><html><head><title>Page</title></head><body>")
	for i := range linksOfPage - 1 {
		fmt.Fprintf(&b, `<a href="/section/page-%d.html">next</a>`, i)
	}
	fmt.Fprintf(&b, `<a href="/%s/%d">more</a>`, name, n)
	for words := range slices.Chunk(text, 60) {
		fmt.Fprintf(&b, "<p>%s</p>\n", strings.Join(words, " "))
	}
	b.WriteString("</body></html>")
	return b.Bytes()
}

// opinion is that of a worker that fetched a document.
func (a *author) opinion(worker string, body []byte) (o trust.Opinion, err error) {
	var page extract.Page
	err = a.extractor.Document(&page, "http://a.example/", http.Header{"Content-Type": {"text/html"}}, body, extract.Options{})
	sum := sha256.Sum256(body)
	var links extract.SimHash
	for i := range page.Links {
		sum := sha256.Sum256([]byte(page.Links[i].URL))
		links.Add(binary.BigEndian.Uint64(sum[:]))
	}
	return trust.Opinion{Worker: worker, Outcome: link.OutcomeOK, Status: http.StatusOK, Digest: sum[:], Content: page.Text, Words: page.Words, Links: links.Sum()}, err
}

// changing: honest workers with pages that change. The workers of a ring of 17 are each other's
// owners and checkers; this uses the samples and the judgment of the checks alone.
func changing(ctx context.Context, o *options) (bool, error) {
	fine, rings := true, 120
	if o.quick {
		rings = 12
	}
	for _, h := range habits {
		list, err := runs(rings, o.seed, func(seed uint64) (changed, error) { return ringOf(ctx, &h, seed) })
		if err != nil {
			return false, err
		}
		var sum changed
		for _, c := range list {
			sum.checks, sum.changing, sum.lost, sum.reset = sum.checks+c.checks, sum.changing+c.changing, sum.lost+c.lost, sum.reset+c.reset
		}
		workers := rings * leafSet
		text := fmt.Sprintf("5 %% of the pages have %s: %d of %d workers wrongly reset (%.2f %%); %d checks, %d of changing pages, %d lost",
			h.name, sum.reset, workers, 100*float64(sum.reset)/float64(workers), sum.checks, sum.changing, sum.lost)
		if !h.goal {
			say("%s", text)
			continue
		}
		fine = check(float64(sum.reset) < 0.001*float64(workers), "%s", text) && fine
	}
	return fine, nil
}

// changed are the checks of a ring.
type changed struct{ checks, changing, lost, reset int }

func ringOf(ctx context.Context, h *habit, seed uint64) (c changed, err error) {
	a, err := newAuthor()
	if err != nil {
		return c, err
	}
	rng := rand.New(rand.NewPCG(seed, 60))
	reset := make(map[int]bool)
	for owner := range leafSet {
		var workers [leafSet]trust.Worker
		for n := range ofWorker {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			w := n % leafSet // each worker has a 17th of its pages from this owner
			if !workers[w].Sample(checkRate, rng.Float64()) {
				continue
			}
			c.checks++
			if rng.Float64() >= changingShare {
				continue // another worker finds the same page
			}
			c.changing++
			others := rng.Perm(leafSet)
			others = slices.DeleteFunc(others, func(x int) bool { return x == w })
			fetch := h.page(a, rng)
			var check trust.Check
			result, loser := trust.Open, ""
			for _, x := range append([]int{w}, others[:2]...) {
				o, err := a.opinion(fmt.Sprint(x), fetch())
				if err != nil {
					return c, fmt.Errorf("owner %d: %w", owner, err)
				}
				if len(check.Opinions) == 0 {
					check.Opinions = append(check.Opinions, o)
				} else if result, loser = check.Add(o); result != trust.Open {
					break
				}
			}
			if result == trust.Lost {
				var x int
				_, _ = fmt.Sscan(loser, &x)
				workers[x].Lose(0)
				c.lost++
				reset[x] = true
			}
		}
	}
	c.reset = len(reset)
	return c, nil
}
