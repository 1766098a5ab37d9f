//go:build linux

// Command broad has real peers crawl webs of many hosts, which it serves itself: sizes by Pareto
// (shape 1.2), each host at an address of its own in 127.64.0.0/10, told by a name server of its
// own. It prints a line a figure with its goal; a figure that is short is only said to be so, but
// a crawl that is not complete, or asks twice, overlaps or breaks robots.txt, makes the status 1.
//
// Processor time and memory of a peer are what the kernel says, from when the ring stands to the
// end of the crawl; the web is in another process, and not counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// bench is one run of the program.
type bench struct {
	work    string
	hosts   int // of the broad webs
	archive string
	flags   string // more of peers
	fine    bool
	n       int // crawls so far
}

// part is what can be measured.
type part struct {
	name, words string
	run         func(b *bench, ctx context.Context) error
}

var parts = []part{
	{"hosts", "what a host costs: few large ones, and many small ones", (*bench).sizes},
	{"one", "a crawl of one broad web alone, for a look with --flags '--pprof 127.0.0.1:606%d'; only if named", (*bench).one},
	{"waiting", "hosts that answer after 50 ms", (*bench).waiting},
	{"eight", "eight peers beside one, on many small hosts and on few large ones", (*bench).eight},
	{"killed", "eight peers on many hosts, one of which is killed half-way", (*bench).killed},
	{"wild", "5,000 hosts of https and HTTP/2 that compress and answer after 30 ms; colly beside, and katana where it is", (*bench).wild},
	{"known", "a million hosts known, few crawled", (*bench).known},
}

func main() {
	b := &bench{fine: true}
	flag.IntVar(&b.hosts, "hosts", 20_000, "hosts of a broad web; what a host costs is told for a tenth and for ten times as many, too")
	flag.StringVar(&b.archive, "archive", "gzip", "how peers pack their archive")
	flag.StringVar(&b.flags, "flags", "", "more flags for peers, parted by spaces; %d is the number of a peer, from 0 on")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, p := range parts {
			line(p.name, p.words)
		}
	})
	harness.Main(&b.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(parts, names, func(p part) string { return p.name }, func(p part) bool { return p.name != "one" && p.name != "wild" })
		for _, p := range chosen {
			if err == nil {
				err = p.run(b, ctx)
			}
		}
		return b.fine, err
	})
}

// figure prints a figure beside its goal, if it has one.
func figure(what string, value float64, unit, goal, more string) {
	fmt.Printf("%-58s %12s  %s\n", what, fmt.Sprintf("%.4g%s", value, unit), join(goal, more))
}

func join(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

// least and most are how a goal is told.
func least(value, goal float64) string { return told(">=", goal, value >= goal) }
func most(value, goal float64) string  { return told("<=", goal, value <= goal) }

func told(sign string, goal float64, reached bool) string {
	word := "reached"
	if !reached {
		word = "short"
	}
	return fmt.Sprintf("goal %s %.4g: %s", sign, goal, word)
}

// blame says what must not be.
func (b *bench) blame(format string, args ...any) {
	b.fine = false
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

// deepWeb has few hosts with pages of the same size.
func deepWeb(hosts, pages int) webgen.Config {
	c := broadWeb(hosts)
	c.PagesPerHost, c.Pareto = pages, 0
	return c
}

// sizes prints what hosts cost.
func (b *bench) sizes(ctx context.Context) error {
	few, err := b.alone(ctx, deepWeb(200, 100))
	if err != nil {
		return err
	}
	figure("200 hosts of 100 pages: pages per CPU second", few.perCPU(), "", "", few.String())
	var first, last *crawl
	for _, hosts := range []int{b.hosts / 10, b.hosts, b.hosts * 10} {
		c, err := b.alone(ctx, broadWeb(hosts))
		if err != nil {
			return err
		}
		if first == nil {
			first = c
		}
		last = c
		figure(fmt.Sprintf("%d hosts, Pareto: pages per CPU second", hosts), c.perCPU(), "", "", c.String())
		if hosts == b.hosts {
			figure("  against few hosts", c.perCPU()/few.perCPU(), "", least(c.perCPU()/few.perCPU(), 0.6), "")
		}
		figure("  CPU ms a host", c.perHost(), "", "", "")
		figure("  longest step of the owner, ms", c.step, "", most(c.step, 50), "")
	}
	growth := last.perHost()/first.perHost() - 1
	figure("cost of a host, from a tenth to ten times as many: growth", 100*growth, " %", most(100*growth, 15), "")
	figure("largest RSS of the largest crawl, MiB", last.rss, "", most(last.rss, 300), "")
	return nil
}

// one prints what one crawl comes to.
func (b *bench) one(ctx context.Context) error {
	c, err := b.alone(ctx, broadWeb(b.hosts))
	if err == nil {
		figure(fmt.Sprintf("%d hosts: pages per CPU second", b.hosts), c.perCPU(), "", "", c.String())
		figure("  longest step of the owner, ms", c.step, "", "", "")
	}
	return err
}

// waiting prints how a peer does whose sites take their time.
func (b *bench) waiting(ctx context.Context) error {
	web := broadWeb(b.hosts)
	web.Latency = 50 * time.Millisecond
	c, err := b.alone(ctx, web)
	if err != nil {
		return err
	}
	busy := c.cpu.Seconds() / c.took.Seconds() / cores
	goal := least(c.perSecond(), 1000)
	if busy > 0.9 {
		goal = "goal: 1000, or the processor full: reached"
	}
	figure(fmt.Sprintf("%d hosts that answer after 50 ms: pages a second", b.hosts), c.perSecond(), "", goal, fmt.Sprintf("%.0f %% of the processors; %s", 100*busy, c))
	return nil
}

// eight prints how eight peers do beside one.
func (b *bench) eight(ctx context.Context) error {
	for _, w := range []struct {
		name string
		web  webgen.Config
	}{{"broad", broadWeb(b.hosts)}, {"deep", deepWeb(40, 2000)}} {
		one, err := b.alone(ctx, w.web)
		if err != nil {
			return err
		}
		many, err := b.together(ctx, w.web, 8)
		if err != nil {
			return err
		}
		figure(w.name+": one peer, pages per CPU second", one.perCPU(), "", "", one.String())
		figure(w.name+": eight peers, pages per CPU second", many.perCPU(), "", "", many.String())
		r := many.perCPU() / one.perCPU()
		figure(w.name+": eight peers / one", r, "", least(r, 0.85), "")
	}
	return nil
}

// killed prints what it costs that one of eight peers is killed half-way.
func (b *bench) killed(ctx context.Context) error {
	c, err := b.broken(ctx, broadWeb(b.hosts), 8)
	if err != nil {
		return err
	}
	share := 100 * float64(c.again) / float64(c.pages)
	figure(fmt.Sprintf("%d hosts, one of eight peers killed: pages fetched again", b.hosts), share, " %", most(share, 2), fmt.Sprintf("%d of %d, %.1f s", c.again, c.pages, c.took.Seconds()))
	return nil
}

// known prints how a peer does that knows a million hosts.
func (b *bench) known(ctx context.Context) error {
	c, err := b.some(ctx, broadWeb(50*b.hosts), 20_000)
	if err != nil {
		return err
	}
	begun := c.begun.Seconds()
	figure(fmt.Sprintf("%d hosts known: seconds to the first page", 50*b.hosts), begun, "", most(begun, 60), c.String())
	figure("  largest RSS, MiB", c.rss, "", most(c.rss, 300), "")
	figure("  slowest status, ms", c.status, "", most(c.status, 100), fmt.Sprintf("of %d", c.asked))
	figure("  longest step of the owner, ms", c.step, "", most(c.step, 50), "")
	return nil
}
