//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// domain is what the names of hosts end in: each is a registrable domain of its own.
const domain = "test"

// crawlTime bounds a crawl.
const crawlTime = 40 * time.Minute

// options describe a crawl.
type options struct {
	web      webgen.Config
	peers    int
	maxPages int  // 0: to its end
	kill     bool // the last peer, half-way
}

// crawl is what came of one.
type crawl struct {
	hosts     int
	pages     int64 // that the web was asked for, robots.txt aside
	again     int64 // pages that were asked for again
	cpu, took time.Duration
	begun     time.Duration // until the first page
	rss       float64       // largest of all peers, MiB
	step      float64       // longest of the owner, ms
	status    float64       // slowest answer, ms
}

func (c *crawl) perCPU() float64  { return float64(c.pages) / c.cpu.Seconds() }
func (c *crawl) perHost() float64 { return 1000 * c.cpu.Seconds() / float64(c.hosts) }

// String describes what a figure was measured on.
func (c *crawl) String() string {
	return fmt.Sprintf("%d pages, %.1f s, %.1f CPU s, %.0f MiB", c.pages, c.took.Seconds(), c.cpu.Seconds(), c.rss)
}

// crawl has peers crawl a web.
func (b *bench) crawl(ctx context.Context, o options) *crawl {
	c := &crawl{hosts: o.web.Hosts}
	ctx, cancel := context.WithTimeout(ctx, crawlTime)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	serving, end := context.WithCancel(ctx)
	defer end()
	web, names := serve(serving, &group, o.web)
	b.crawls++
	dir := filepath.Join(b.work, "crawl"+strconv.Itoa(b.crawls))
	harness.Check(os.Mkdir(dir, 0o700))
	defer func() { _ = os.RemoveAll(dir) }()
	seeds := filepath.Join(dir, "seeds")
	harness.Check(os.WriteFile(seeds, []byte(strings.Join(web.Seeds(), "\n")), 0o600))
	var all []*harness.Peer
	defer func() {
		for _, p := range all {
			p.Kill()
		}
	}()
	ring(ctx, dir, o.peers, names, &all)
	before, begun := spent(all), time.Now()
	crawled := make(chan error, 1)
	group.Go(func() {
		_, err := harness.Apoidea(ctx, "crawl", "--seeds", seeds, "--scope", fmt.Sprintf("*.%s:%d", domain, web.Port), "--max-pages", strconv.Itoa(o.maxPages), "--wait", "--quiet", "--data-dir", all[0].Dir)
		crawled <- err
	})
	live := all
	if o.kill {
		live = all[:o.peers-1]
		half := int64(len(web.Truth().URLs) / 2)
		group.Go(func() {
			for web.Audit().Totals.Requests < half && harness.Sleep(serving, 100*time.Millisecond) == nil {
			}
			all[o.peers-1].Kill()
		})
	}
	harness.Check(c.watch(ctx, live, begun, crawled))
	c.took, c.cpu = time.Since(begun), spent(live)-before
	for _, p := range live {
		c.rss = max(c.rss, float64(harness.Must(harness.MemoryOf(p.Pid())).Peak)/(1<<20))
	}
	b.judge(c, web, o)
	return c
}

// serve serves a web at all addresses of the loopback device, and its names, until ctx ends; the
// group waits for the end.
func serve(ctx context.Context, group *sync.WaitGroup, cfg webgen.Config) (web *harness.Web, names string) {
	loopback := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), "lo") })
		return errors.Join(err, failed)
	}}
	web = harness.ServeWebOn(ctx, group, harness.Must(loopback.Listen(ctx, "tcp4", ":0")), cfg)
	names = harness.Must(harness.ServeDNS(ctx, group, "127.0.0.1:0", harness.Addresses(func(name string) net.IP { // h0.test, h1.test and so on
		label, rest, _ := strings.Cut(name, ".")
		n, err := strconv.ParseUint(strings.TrimPrefix(label, "h"), 10, 22)
		if err != nil || rest != domain {
			return nil
		}
		return net.IPv4(127, byte(64+n>>16), byte(n>>8), byte(n))
	})))
	return web, names
}

// ring starts peers, which it adds to all, and waits until they know each other.
func ring(ctx context.Context, dir string, peers int, names string, all *[]*harness.Peer) {
	args := []string{"--allow-private", "--delay", "0", "--quiet", "--dns-server", names, "--listen", "/ip4/127.0.0.1/tcp/0"}
	var env []string
	if peers > 1 { // as `cluster up` has it
		env = []string{"GOMAXPROCS=" + strconv.Itoa(max(2*runtime.NumCPU()/peers, 1))}
	}
	for i := range peers {
		p := harness.Must(harness.Start(ctx, dir, "p"+strconv.Itoa(i), env, args...))
		*all = append(*all, p)
		harness.Must(p.Ready(ctx, true))
		if i == 0 {
			args = append(args, "--bootstrap", harness.Must(p.Addrs(ctx))[0])
		}
	}
	for _, p := range *all {
		for {
			s, err := p.Client.Status(ctx, false)
			if err == nil && s.Ring.Members == peers && s.Ring.Stable {
				break
			}
			harness.Check(harness.Sleep(ctx, 100*time.Millisecond))
		}
	}
}

// spent is the CPU time of peers.
func spent(all []*harness.Peer) (sum time.Duration) {
	for _, p := range all {
		cpu, _ := harness.CPU(p.Pid()) // of a process that runs
		sum += cpu
	}
	return sum
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
			c.status = max(c.status, float64(time.Since(asked).Microseconds())/1000)
			c.step = max(c.step, s.LongestStepMS)
		}
	}
}

// judge expects that the crawl is complete if it has no bound, fetched each page once, with one
// worker at a host, and as robots.txt allows.
func (b *bench) judge(c *crawl, web *harness.Web, o options) {
	t := web.Audit().Totals
	c.pages, c.again = t.Requests, t.RepeatedURLs
	again := c.again
	if o.kill {
		again = 0 // a figure
	}
	for what, n := range map[string]int64{
		"pages asked for again": again, "requests beside another worker's": t.Overlaps, "requests against robots.txt": t.RobotsViolations,
	} {
		if n > 0 {
			b.blame("%d hosts: %d %s", c.hosts, n, what)
		}
	}
	if o.maxPages > 0 {
		if c.pages < int64(o.maxPages)*9/10 {
			b.blame("%d hosts: %d pages, of %d that were to be fetched", c.hosts, c.pages, o.maxPages)
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
