package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// leastThroughput is what a ring with replication must reach of one without, by processor time a page.
const leastThroughput = 0.85

// costRounds is how often each is measured, in turns; the cheapest counts, since what else the machine does only adds.
const costRounds = 2

// upAlone makes the first ring without replication.
func (t *trial) upAlone(ctx context.Context) error { return t.upWith(ctx, 1, 0) }

func (t *trial) upWith(ctx context.Context, replicas, round int) error {
	t.ring = &ring{dir: filepath.Join(t.dir, fmt.Sprintf("r%d.%d", replicas, round))}
	t.all = append(t.all, t.ring)
	t.waiter = 1
	return t.ring.up(ctx, t.sc.peers, append(t.peerArgs(), "--replicas", strconv.Itoa(replicas))...)
}

// compareCost crawls the web without replication and with it.
func (t *trial) compareCost(ctx context.Context) error {
	alone, err := t.cost(ctx, t.finish)
	if err != nil {
		return err
	}
	best := map[int]cost{1: alone}
	for round := range costRounds {
		for _, replicas := range []int{3, 1} {
			if replicas == 1 && round == costRounds-1 {
				break // that was the first of all
			}
			if err := t.ring.cluster(ctx, "down"); err != nil {
				return err
			}
			if err := t.web.reset(ctx); err != nil {
				return err
			}
			if err := t.upWith(ctx, replicas, round+1); err != nil {
				return err
			}
			c, err := t.cost(ctx, func(ctx context.Context) error {
				return apoidea(ctx, "", append([]string{"crawl", "--quiet", "--wait", "--data-dir", t.ring.peerDir(t.waiter)}, t.web.seeds...)...)
			})
			if err != nil {
				return err
			}
			if b, ok := best[replicas]; !ok || c.cpu < b.cpu {
				best[replicas] = c
			}
		}
	}
	t.judgeCost(best[1], best[3])
	return nil
}

func (t *trial) judgeCost(alone, three cost) {
	pages := float64(len(t.web.truth.URLs))
	ratio := alone.cpu.Seconds() / three.cpu.Seconds()
	t.say("throughput by processor time %.2f of that with r = 1 (bound %.2f): %.0f and %.0f us a page, %.0f and %.0f pages/s",
		ratio, leastThroughput, 1e6*three.cpu.Seconds()/pages, 1e6*alone.cpu.Seconds()/pages, pages/three.wall.Seconds(), pages/alone.wall.Seconds())
	if ratio < leastThroughput {
		t.blame("throughput %.2f of that with r = 1", ratio)
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
