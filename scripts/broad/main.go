//go:build linux

// Command broad has real peers crawl webs of many hosts, which it serves itself: sizes by Pareto
// (shape 1.2), each host at an address of its own in 127.64.0.0/10, with a name server of its own.
// It prints a line a figure with its goal. A figure that misses its goal is only marked; a crawl
// that is not complete, or asks twice, overlaps or breaks robots.txt, makes the exit status 1.
//
// CPU time and memory of a peer are what the kernel counts, from when the ring stands to the end of
// the crawl; the web is in another process, and not counted.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// bench is one run of the program.
type bench struct {
	work   string
	hosts  int // of the broad webs
	wrong  bool
	crawls int // so far
}

// part is what can be measured.
type part struct {
	name, words string
	run         func(b *bench, ctx context.Context)
}

var parts = []part{
	{"hosts", "what a host costs: few large ones, and many small ones", (*bench).sizes},
	{"killed", "eight peers on many hosts, one of which is killed half-way", (*bench).killed},
	{"known", "a million hosts known, few crawled", (*bench).known},
}

func main() {
	b := &bench{}
	flag.IntVar(&b.hosts, "hosts", 20_000, "hosts of a broad web; the cost of a host is also measured with a tenth and ten times as many")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, p := range parts {
			line(p.name, p.words)
		}
	})
	harness.Main(&b.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(parts, names, func(p part) string { return p.name }, func(part) bool { return true })
		for _, p := range chosen {
			if err == nil {
				err = harness.Try(func() { p.run(b, ctx) })
			}
		}
		return !b.wrong, err
	})
}

// figure prints a figure, with notes of what it was measured on and its goal.
func figure(what string, value float64, notes ...any) {
	fmt.Printf("%-58s %12.4g  %s\n", what, value, fmt.Sprint(notes...))
}

// least and most describe a goal and whether it is reached.
func least(value, goal float64) string { return describe(">=", goal, value >= goal) }
func most(value, goal float64) string  { return describe("<=", goal, value <= goal) }

func describe(sign string, goal float64, reached bool) string {
	word := "reached"
	if !reached {
		word = "missed"
	}
	return fmt.Sprintf("goal %s %.4g: %s", sign, goal, word)
}

// blame prints what must not be.
func (b *bench) blame(format string, args ...any) {
	b.wrong = true
	fmt.Printf("WRONG: "+format+"\n", args...)
}

// broadWeb is a web of many hosts, most of them small.
func broadWeb(hosts int) webgen.Config {
	c := webgen.DefaultConfig()
	c.Hosts, c.PagesPerHost, c.Pareto = hosts, 4, 1.2
	c.Domain, c.Links, c.PageBytes, c.CrossHostShare = domain, 30, 8000, 0.3
	c.ErrorShare, c.RedirectShare, c.DuplicateShare, c.NofollowShare = 0, 0, 0, 0
	return c
}

// sizes prints what hosts cost.
func (b *bench) sizes(ctx context.Context) {
	deep := broadWeb(200)
	deep.PagesPerHost, deep.Pareto = 100, 0
	few := b.crawl(ctx, options{web: deep, peers: 1})
	figure("200 hosts of 100 pages: pages per CPU second", few.perCPU(), few)
	var first, last *crawl
	for _, hosts := range []int{b.hosts / 10, b.hosts, b.hosts * 10} {
		c := b.crawl(ctx, options{web: broadWeb(hosts), peers: 1})
		if first == nil {
			first = c
		}
		last = c
		figure(fmt.Sprintf("%d hosts, Pareto: pages per CPU second", hosts), c.perCPU(), c)
		if ratio := c.perCPU() / few.perCPU(); hosts == b.hosts {
			figure("  relative to few hosts", ratio, least(ratio, 0.6))
		}
		figure("  CPU ms a host", c.perHost())
		figure("  longest step of the owner, ms", c.step, most(c.step, 50))
	}
	growth := 100 * (last.perHost()/first.perHost() - 1)
	figure("cost of a host, from a tenth to ten times as many: growth, %", growth, most(growth, 15))
	figure("largest RSS of the largest crawl, MiB", last.rss, most(last.rss, 300))
}

// killed prints what it costs that one of eight peers is killed half-way.
func (b *bench) killed(ctx context.Context) {
	c := b.crawl(ctx, options{web: broadWeb(b.hosts), peers: 8, kill: true})
	share := 100 * float64(c.again) / float64(c.pages)
	figure(fmt.Sprintf("%d hosts, one of eight peers killed: fetched again, %%", b.hosts), share, c.again, " of ", c, "; ", most(share, 2))
}

// known prints the figures of a peer that knows a million hosts.
func (b *bench) known(ctx context.Context) {
	c := b.crawl(ctx, options{web: broadWeb(50 * b.hosts), peers: 1, maxPages: 20_000})
	begun := c.begun.Seconds()
	figure(fmt.Sprintf("%d hosts known: seconds to the first page", 50*b.hosts), begun, c, "; ", most(begun, 60))
	figure("  largest RSS, MiB", c.rss, most(c.rss, 300))
	figure("  slowest status, ms", c.status, most(c.status, 100))
	figure("  longest step of the owner, ms", c.step, most(c.step, 50))
}
