//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/scripts/harness/meter"
)

// The caps of the trial, in bytes a second.
const (
	wide   = 500_000 // 4Mbit
	narrow = 250_000 // 2Mbit
)

const (
	// settled is how long a change may take to be obeyed.
	settled = 2 * time.Second
	// reported is by when what was fetched before a pause has been told to its owners, and their
	// replicas.
	reported = 5 * time.Second
)

// caps has one of two peers crawl under a cap, changes it, pauses and resumes.
func (t *trial) caps(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := meter.New()
	ln := harness.Must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	cfg := webgen.DefaultConfig()
	cfg.Hosts, cfg.PagesPerHost, cfg.PageBytes, cfg.ErrorShare = 64, 4000, 12_000, 0
	var group sync.WaitGroup
	defer func() { cancel(); group.Wait() }()
	web := harness.ServeWebOn(ctx, &group, meter.Listener{Listener: ln, Meter: m}, cfg)
	group.Go(func() { m.Run(ctx) })
	site := fmt.Sprintf(":%d", web.Port)

	// The second peer is there to be spoken to, and fetches nothing.
	other := t.start(ctx, "other", "--found")
	defer other.Kill()
	_ = harness.Must(harness.Apoidea(ctx, "pause", "--data-dir", other.Dir))
	entries := harness.Must(other.Addrs(ctx))
	p := t.start(ctx, "peer", "--bootstrap", entries[0], "--delay", "0", "--bandwidth", "4Mbit", "--placement", "owner")
	defer p.Kill()
	seeds := web.Seeds()
	_ = harness.Must(harness.Apoidea(ctx, append([]string{"crawl", "--data-dir", p.Dir, "--scope", "*.web.localhost" + site}, seeds...)...))
	harness.Check(harness.Sleep(ctx, 10*time.Second)) // robots.txt, first pages
	t.under(ctx, m, "4Mbit", wide)

	at := time.Now()
	_ = harness.Must(harness.Apoidea(ctx, "limits", "set", "--data-dir", p.Dir, "bandwidth=2Mbit"))
	harness.Check(harness.Sleep(ctx, 8*time.Second))
	down, _ := m.Between(at.Add(settled), at.Add(settled+5*time.Second))
	mean := float64(down) / 5 / narrow
	t.figure("cap changed from 4 to 2 Mbit/s: of it used from 2 s on, 5 s", "1.02 L", fmt.Sprintf("%.3f L", mean), mean <= 1.02)

	before := harness.Must(harness.CPU(p.Pid()))
	begun := time.Now()
	t.under(ctx, m, "2Mbit", narrow)
	after := harness.Must(harness.CPU(p.Pid()))
	share := (after - before).Seconds() / time.Since(begun).Seconds()
	t.figure("crawling at 2 Mbit/s: processor", "10 % of a core", fmt.Sprintf("%.1f %%", 100*share), share < 0.10)
	used := harness.Must(harness.MemoryOf(p.Pid()))
	t.figure("crawling at 2 Mbit/s: memory, at most", "143 MiB", fmt.Sprintf("%d MiB", used.Peak>>20), used.Peak < 143<<20)
	t.pausing(ctx, m, p, site)
}

// under measures a span under a cap.
func (t *trial) under(ctx context.Context, m *meter.Meter, name string, bound int64) {
	begun := time.Now()
	harness.Check(harness.Sleep(ctx, t.span))
	end := time.Now()
	down, _ := m.Between(begun, end)
	mean := float64(down) / end.Sub(begun).Seconds() / float64(bound)
	t.figure("under a cap of "+name+": of it used on average", "(crawling)", fmt.Sprintf("%.1f %%", 100*mean), mean > 0.3)
	most, above := m.Windows(begun, end, bound*102/100)
	t.figure("under a cap of "+name+": the fullest second", "1.02 L", fmt.Sprintf("%.3f L", float64(most)/float64(bound)), most <= bound*102/100)
	t.figure("under a cap of "+name+": seconds above 1.02 L, of all phases", "0 %", fmt.Sprintf("%.2f %%", 100*above), above == 0)
}

// pausing pauses the peer for a while and sees it go on by itself.
func (t *trial) pausing(ctx context.Context, m *meter.Meter, p *harness.Peer, site string) {
	quiet := t.span / 2
	at := time.Now()
	_ = harness.Must(harness.Apoidea(ctx, "pause", "--data-dir", p.Dir, "--for", (reported + quiet + time.Second).String()))
	harness.Check(harness.Sleep(ctx, time.Until(at.Add(reported))))
	before := harness.Must(peerBytes(ctx, p.Pid(), site))
	begun := time.Now()
	harness.Check(harness.Sleep(ctx, quiet))
	after := harness.Must(peerBytes(ctx, p.Pid(), site))
	end := time.Now()
	took := m.LastByte(at, end).Sub(at)
	down, up := m.Between(at.Add(settled), end)
	t.figure("paused: last byte to or from a site after", "2 s", fmt.Sprintf("%.2f s", took.Seconds()), down+up == 0)
	rate := float64(grown(before, after)) / end.Sub(begun).Seconds()
	t.figure("paused, in a ring of 2: to and from peers from 5 s on", "1000 B/s", fmt.Sprintf("%.0f B/s", rate), rate < 1000)
	harness.Check(harness.Sleep(ctx, 10*time.Second))
	down, _ = m.Between(time.Now().Add(-3*time.Second), time.Now())
	t.figure("a pause with an end: bytes of sites in 3 s, some seconds after it", "more than 0", fmt.Sprint(down), down > 0)
}

// idle measures a ring that has nothing to do.
func (t *trial) idle(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var peers []*harness.Peer
	defer func() {
		for _, p := range peers {
			p.Kill()
		}
	}()
	var entry []string
	for i := range t.ring {
		p := t.start(ctx, fmt.Sprintf("idle%d", i+1), entry...)
		peers = append(peers, p)
		if i == 0 {
			addrs := harness.Must(p.Addrs(ctx))
			entry = []string{"--bootstrap", addrs[0]}
		}
	}
	harness.Check(harness.Sleep(ctx, time.Minute)) // stabilizing slows down when nothing changes
	type reading struct {
		cpu   time.Duration
		bytes map[string]int64
	}
	read := func() (all []reading) {
		for _, p := range peers {
			all = append(all, reading{harness.Must(harness.CPU(p.Pid())), harness.Must(peerBytes(ctx, p.Pid(), "-"))})
		}
		return all
	}
	begun := time.Now()
	before := read()
	harness.Check(harness.Sleep(ctx, 2*t.span))
	after := read()
	span := time.Since(begun).Seconds()
	var cpu, bytes, mostCPU, mostBytes float64
	for i := range peers {
		c, b := (after[i].cpu-before[i].cpu).Seconds()/span, float64(grown(before[i].bytes, after[i].bytes))/span
		cpu, bytes, mostCPU, mostBytes = cpu+c, bytes+b, max(mostCPU, c), max(mostBytes, b)
	}
	n := float64(len(peers))
	ring := fmt.Sprintf("idle in a ring of %d: ", len(peers))
	t.figure(ring+"processor, mean", "1 % of a core", fmt.Sprintf("%.2f %%", 100*cpu/n), cpu/n < 0.01)
	t.figure(ring+"processor, the busiest peer", "1 % of a core", fmt.Sprintf("%.2f %%", 100*mostCPU), mostCPU < 0.01)
	t.figure(ring+"to and from peers, mean", "2000 B/s", fmt.Sprintf("%.0f B/s", bytes/n), bytes/n < 2000)
	t.figure(ring+"to and from peers, the busiest", "2000 B/s", fmt.Sprintf("%.0f B/s", mostBytes), mostBytes < 2000)
}
