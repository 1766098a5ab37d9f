package webgen

import (
	"cmp"
	"io"
	"time"
)

// Config describes a web. Two equal Configs are the same web. Counts and sizes of zero select those
// of DefaultConfig; shares of zero mean none.
type Config struct {
	// Seed determines everything that is not set below.
	Seed uint64
	// Hosts is the number of hosts.
	Hosts int
	// PagesPerHost is the number of pages of each host; not all of them are reachable or answer with
	// 200.
	PagesPerHost int
	// Pareto is the shape of the distribution of pages over hosts, with PagesPerHost as the mean and
	// at most 50 times as many; no body of another host is served then. 1 or less: all hosts have as
	// many.
	Pareto float64
	// Links is the number of links of each page, repetitions included.
	Links int
	// PageBytes is the mean size of a page; sizes are uniform from half to one and a half of it. Links
	// take about 60 bytes each, so a smaller mean grows.
	PageBytes int
	// Domain is the suffix of the host names.
	Domain string
	// HTTPS makes URLs begin with https. The server of such a web makes the handshakes.
	HTTPS bool

	// DuplicateShare is the share of pages that serve the body of another page, half of them that
	// of another host's page.
	DuplicateShare float64
	// RedirectShare is the share of pages that redirect, in chains of at most three.
	RedirectShare float64
	// CrossHostShare is the share of links and redirects that lead to another host.
	CrossHostShare float64
	// ErrorShare is the share of pages with an error: half are permanent (404, 410), the others flaky
	// or slow.
	ErrorShare float64
	// NofollowShare is the share of pages that forbid following their links (meta element or header),
	// and of links marked so. Marked links lead into a trap: pages with no other links to them.
	NofollowShare float64
	// NoindexShare is the share of pages that request not to be indexed.
	NoindexShare float64
	// RobotsShare is the share of hosts whose robots.txt forbids some URLs; some of the others have
	// none at all.
	RobotsShare float64
	// SitemapShare is the share of hosts with sitemaps, which alone name some of their pages.
	SitemapShare float64

	// CrawlDelay is in every robots.txt if not zero.
	CrawlDelay time.Duration
	// Latency is the delay of each response.
	Latency time.Duration
	// SlowLatency is the delay of the response of a slow page.
	SlowLatency time.Duration
	// FlakyFailures is how often a flaky page answers 500 or 503 before it answers 200; 0 selects the
	// default, negative: never 200.
	FlakyFailures int

	// Changes makes this a web of plain pages that change; page 0 of each host links the others.
	// [Web.Truth] is not valid for it.
	Changes Changes
	// Speed is the number of seconds of Changes that pass in a second.
	Speed float64
	// Log is written one [Served] a line as JSON; nil: none.
	Log io.Writer
}

// DefaultConfig returns a web of all kinds of pages: 16 hosts of 1,000 pages, with sizes of real
// documentation pages.
func DefaultConfig() Config {
	return Config{
		Seed:           1,
		Hosts:          16,
		PagesPerHost:   1000,
		Links:          150,
		PageBytes:      38_000,
		Domain:         "web.localhost",
		DuplicateShare: 0.10,
		RedirectShare:  0.03,
		CrossHostShare: 0.05,
		ErrorShare:     0.02,
		NofollowShare:  0.01,
		NoindexShare:   0.01,
		RobotsShare:    0.5,
		SitemapShare:   0.25,
		SlowLatency:    300 * time.Millisecond,
		FlakyFailures:  1,
		Speed:          3600,
	}
}

// maxCount bounds hosts and pages a host, so that their numbers fit the 32 bits that draws are
// scaled with, and an int of 32 bits.
const maxCount = 1<<31 - 1

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Changes != nil {
		c.Hosts, c.DuplicateShare, c.RedirectShare, c.ErrorShare, c.SitemapShare = len(c.Changes), 0, 0, 0, 0
	}
	if c.Speed <= 0 {
		c.Speed = d.Speed
	}
	for _, f := range []struct {
		count *int
		usual int
	}{{&c.Hosts, d.Hosts}, {&c.PagesPerHost, d.PagesPerHost}, {&c.Links, d.Links}, {&c.PageBytes, d.PageBytes}} {
		if *f.count <= 0 {
			*f.count = f.usual
		}
	}
	if c.SlowLatency <= 0 {
		c.SlowLatency = d.SlowLatency
	}
	c.Hosts, c.PagesPerHost = min(c.Hosts, maxCount), min(c.PagesPerHost, maxCount)
	c.Domain, c.FlakyFailures = cmp.Or(c.Domain, d.Domain), cmp.Or(c.FlakyFailures, d.FlakyFailures)
	c.FlakyFailures = max(c.FlakyFailures, 0)
	return c
}

// Salts separate the draws for different properties of the same page.
const (
	saltKind uint64 = iota + 1
	saltFault
	saltDuplicate
	saltRedirect
	saltLinks
	saltText
	saltMarks
	saltRobots
	saltSitemap
	saltWords
	saltPages
	saltHabit
	saltNonce
)

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on
// every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns the number of (seed, host, page) for the property salt.
func (w *Web) draw(salt uint64, host, page int) uint64 {
	const golden = 0x9e3779b97f4a7c15
	x := mix(w.cfg.Seed + salt*golden)
	x = mix(x ^ uint64(host)*golden)
	return mix(x + uint64(page)*golden)
}

// rng is SplitMix64: a sequence of draws that costs a few instructions each.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number in [0, n); n must be positive. The bias of the multiplication is below
// n/2^32.
func (r *rng) below(n int) int { return scale(r.next(), n) }

func scale(x uint64, n int) int { return int((x >> 32) * uint64(n) >> 32) }

// unit maps a draw to [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
