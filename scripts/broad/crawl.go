//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

var cores = float64(runtime.NumCPU())

// crawl is what came of one.
type crawl struct {
	hosts      int
	pages      int64 // that the web was asked for, robots.txt aside
	cpu, took  time.Duration
	begun      time.Duration // until the first request
	rss        float64       // largest of all peers, MiB
	step       float64       // longest of the owner, ms
	status     float64       // slowest answer, ms
	asked      int           // for a status
	robotsAsks int64
	again      int64 // pages that were asked for again
}

func (c *crawl) perCPU() float64    { return float64(c.pages) / c.cpu.Seconds() }
func (c *crawl) perSecond() float64 { return float64(c.pages) / c.took.Seconds() }
func (c *crawl) perHost() float64   { return 1000 * c.cpu.Seconds() / float64(c.hosts) }

// String is what is told beside a figure.
func (c *crawl) String() string {
	return fmt.Sprintf("%d pages, %.1f s, %.1f CPU s, %.0f MiB", c.pages, c.took.Seconds(), c.cpu.Seconds(), c.rss)
}

// alone has one peer crawl a web to its end.
func (b *bench) alone(ctx context.Context, web webgen.Config) (*crawl, error) {
	return b.crawl(ctx, web, 1, 0, false)
}

// together has some peers crawl it.
func (b *bench) together(ctx context.Context, web webgen.Config, peers int) (*crawl, error) {
	return b.crawl(ctx, web, peers, 0, false)
}

// some has one peer fetch so many pages of it.
func (b *bench) some(ctx context.Context, web webgen.Config, pages int) (*crawl, error) {
	return b.crawl(ctx, web, 1, pages, false)
}

// broken has some peers crawl it, of which the last is killed half-way.
func (b *bench) broken(ctx context.Context, web webgen.Config, peers int) (*crawl, error) {
	return b.crawl(ctx, web, peers, 0, true)
}

// within bounds a crawl.
const within = 40 * time.Minute

func (b *bench) crawl(ctx context.Context, cfg webgen.Config, peers, pages int, kill bool) (c *crawl, err error) {
	c = &crawl{hosts: cfg.Hosts}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	serving, end := context.WithCancel(ctx)
	defer end()
	web, names, env, err := b.serve(serving, &group, cfg)
	if err != nil {
		return c, err
	}
	b.n++
	dir := filepath.Join(b.work, "crawl"+strconv.Itoa(b.n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return c, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	seeds := filepath.Join(dir, "seeds")
	if err := write(seeds, web.Seeds()); err != nil {
		return c, err
	}
	all, err := b.ring(ctx, dir, peers, env, b.peerFlags(names))
	defer func() {
		for _, p := range all {
			p.Kill()
		}
	}()
	if err != nil {
		return c, err
	}
	last := all[peers-1]
	before, begun := spent(all), time.Now()
	crawled := make(chan error, 1)
	group.Go(func() {
		_, err := harness.Apoidea(ctx, "crawl", "--seeds", seeds, "--scope", fmt.Sprintf("*.%s:%d", domain, web.Port), "--max-pages", strconv.Itoa(pages), "--wait", "--quiet", "--data-dir", all[0].Dir)
		crawled <- err
	})
	if kill {
		half := int64(len(web.Truth().URLs) / 2)
		group.Go(func() {
			for web.Audit().Totals.Requests < half && harness.Sleep(serving, 100*time.Millisecond) == nil {
			}
			last.Kill()
		})
		all = all[:peers-1]
	}
	err = c.watch(ctx, all, begun, crawled)
	c.took, c.cpu = time.Since(begun), spent(all)-before
	for _, p := range all {
		m, merr := harness.MemoryOf(p.Pid())
		err = errors.Join(err, merr)
		c.rss = max(c.rss, float64(m.Peak)/(1<<20))
	}
	if err == nil {
		b.judge(c, web, pages, kill)
	}
	return c, err
}

// ring starts peers, and waits until they know each other.
func (b *bench) ring(ctx context.Context, dir string, peers int, env, flags []string) (all []*harness.Peer, err error) {
	if peers > 1 { // as `cluster up` has it
		env = append(slices.Clone(env), "GOMAXPROCS="+strconv.Itoa(max(2*runtime.NumCPU()/peers, 1)))
	}
	for i := range peers {
		args := slices.Clone(flags)
		for k := range args {
			args[k] = strings.ReplaceAll(args[k], "%d", strconv.Itoa(i))
		}
		if i > 0 {
			addrs, err := all[0].Addrs(ctx)
			if err != nil {
				return all, err
			}
			args = append(args, "--bootstrap", addrs[0])
		}
		p, err := harness.Start(ctx, dir, "p"+strconv.Itoa(i), env, args...)
		if err != nil {
			return all, err
		}
		all = append(all, p)
		if _, err := p.Ready(ctx, true); err != nil {
			return all, err
		}
	}
	for _, p := range all {
		for {
			s, err := p.Client.Status(ctx, false)
			if err == nil && s.Ring.Members == peers && s.Ring.Stable {
				break
			}
			if err := harness.Sleep(ctx, 100*time.Millisecond); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// spent is the processor time that peers have had.
func spent(all []*harness.Peer) (sum time.Duration) {
	for _, p := range all {
		cpu, _ := harness.CPU(p.Pid()) // of a process that runs
		sum += cpu
	}
	return sum
}

// peerFlags are those of every peer.
func (b *bench) peerFlags(names string) []string {
	flags := []string{"--allow-private", "--delay", "0", "--archive", b.archive, "--quiet", "--dns-server", names, "--listen", "/ip4/127.0.0.1/tcp/0"}
	return append(flags, strings.Fields(b.flags)...)
}

// watch follows a crawl until it has ended.
func (c *crawl) watch(ctx context.Context, all []*harness.Peer, begun time.Time, crawled <-chan error) error {
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case err := <-crawled:
			return err
		case <-every.C:
		}
		for _, p := range all {
			asked := time.Now()
			s, err := p.Client.Status(ctx, false)
			if err != nil {
				continue
			}
			if c.begun == 0 && s.Pages > 0 {
				c.begun = time.Since(begun)
			}
			c.asked++
			c.status = max(c.status, float64(time.Since(asked).Microseconds())/1000)
			c.step = max(c.step, s.LongestStepMS)
		}
	}
}

// judge says what the crawl must be: complete if it has no bound, each page once, one worker at a
// host, and as robots.txt allows.
func (b *bench) judge(c *crawl, web *harness.Web, bound int, killed bool) {
	t := web.Audit().Totals
	c.pages, c.robotsAsks, c.again = t.Requests, t.RobotsRequests, t.RepeatedURLs
	again := c.again
	if killed {
		again = 0 // told as a figure
	}
	for what, n := range map[string]int64{
		"pages asked for again": again, "requests beside another worker's": t.Overlaps, "requests against robots.txt": t.RobotsViolations,
	} {
		if n > 0 {
			b.blame("%d hosts: %d %s", c.hosts, n, what)
		}
	}
	if bound > 0 {
		if c.pages < int64(bound)*9/10 {
			b.blame("%d hosts: %d pages, of %d that were to be fetched", c.hosts, c.pages, bound)
		}
		return
	}
	asked, missing := web.Asked(), 0
	for _, u := range web.Truth().URLs {
		if asked[u] == 0 {
			missing++
		}
	}
	if missing > 0 {
		b.blame("%d hosts: %d pages were not asked for", c.hosts, missing)
	}
}

func write(file string, lines []string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	if err := out.Flush(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
