package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// leastThroughput is what a ring with replication must reach of one without, by processor time a
// page.
const leastThroughput = 0.85

// costPairs is how often both are measured, one right after the other, each first in every second
// pair; the median of the pairs counts. How fast a machine is changes within a minute, by more than
// what is looked for here.
const costPairs = 11

// upAlone makes the first ring without replication.
func (t *trial) upAlone(ctx context.Context) error { return t.upWith(ctx, 1, 0) }

func (t *trial) upWith(ctx context.Context, replicas, round int) error {
	t.ring = &ring{dir: filepath.Join(t.dir, fmt.Sprintf("r%d.%d", replicas, round))}
	t.all = append(t.all, t.ring)
	t.waiter = 1
	return t.ring.up(ctx, t.sc.peers, append(t.peerArgs(), "--replicas", strconv.Itoa(replicas))...)
}

// compareCost crawls the web without replication and with it, in turns. The first ring, without, is
// up.
func (t *trial) compareCost(ctx context.Context) error {
	var pairs []pair
	for i := range costPairs {
		var p pair
		sides := []struct {
			replicas int
			cost     *cost
		}{{1, &p.alone}, {3, &p.three}}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for n, side := range sides {
			wait := t.finish
			if i > 0 || n > 0 {
				if err := t.again(ctx, side.replicas, i); err != nil {
					return err
				}
				wait = func(ctx context.Context) error {
					return apoidea(ctx, "", append([]string{"crawl", "--quiet", "--wait", "--data-dir", t.ring.peerDir(t.waiter)}, t.web.seeds...)...)
				}
			}
			var err error
			if *side.cost, err = t.cost(ctx, wait); err != nil {
				return err
			}
		}
		pairs = append(pairs, p)
	}
	t.judgeCost(pairs)
	return nil
}

// again puts a new ring in the place of the last one, and has the web forget who was there.
func (t *trial) again(ctx context.Context, replicas, round int) error {
	if err := t.ring.cluster(ctx, "down"); err != nil {
		return err
	}
	t.web.ResetAudit()
	return t.upWith(ctx, replicas, round+1)
}

// pair is what both took, one right after the other.
type pair struct{ alone, three cost }

func (t *trial) judgeCost(pairs []pair) {
	pages := float64(len(t.web.truth.URLs))
	of := func(fn func(p pair) float64) (least, middle, most float64) {
		var all []float64
		for _, p := range pairs {
			all = append(all, fn(p))
		}
		slices.Sort(all)
		return all[0], all[len(all)/2], all[len(all)-1]
	}
	median := func(fn func(p pair) float64) float64 { _, m, _ := of(fn); return m }
	least, ratio, most := of(func(p pair) float64 { return p.alone.cpu.Seconds() / p.three.cpu.Seconds() })
	t.Say("throughput by processor time %.2f of that with r = 1 (bound %.2f; %d pairs, %.2f to %.2f), by the clock %.2f: %.0f and %.0f us a page, %.0f and %.0f pages/s",
		ratio, leastThroughput, len(pairs), least, most, median(func(p pair) float64 { return p.alone.wall.Seconds() / p.three.wall.Seconds() }),
		median(func(p pair) float64 { return 1e6 * p.three.cpu.Seconds() / pages }), median(func(p pair) float64 { return 1e6 * p.alone.cpu.Seconds() / pages }),
		median(func(p pair) float64 { return pages / p.three.wall.Seconds() }), median(func(p pair) float64 { return pages / p.alone.wall.Seconds() }))
	if ratio < leastThroughput {
		t.Blame("throughput %.2f of that with r = 1", ratio)
	}
}

type cost struct{ cpu, wall time.Duration }

// cost is what the ring's processes take until wait returns.
func (t *trial) cost(ctx context.Context, wait func(context.Context) error) (cost, error) {
	before, err := t.ring.cpu(t.sc.peers)
	if err != nil {
		return cost{}, err
	}
	begin := time.Now()
	if err := wait(ctx); err != nil {
		return cost{}, err
	}
	wall := time.Since(begin)
	after, err := t.ring.cpu(t.sc.peers)
	return cost{after - before, wall}, err
}
