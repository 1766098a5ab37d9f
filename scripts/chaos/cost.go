package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// leastThroughput is what a ring with replication must reach of one without, by processor time a page.
const leastThroughput = 0.85

// upAlone makes the ring without replication, whose crawl is compared with that of another.
func (t *trial) upAlone(ctx context.Context) error {
	err := t.upWith(ctx, "alone", "--replicas", "1")
	if err != nil && strings.Contains(err.Error(), "replicas") {
		return fmt.Errorf("this binary has no --replicas: %w", err)
	}
	return err
}

func (t *trial) upWith(ctx context.Context, name string, args ...string) error {
	t.ring = &ring{dir: filepath.Join(t.dir, name)}
	t.all = append(t.all, t.ring)
	t.waiter = 1
	return t.ring.up(ctx, t.sc.peers, append(t.peerArgs(), args...)...)
}

// compareCost crawls the web without replication, then again with it.
func (t *trial) compareCost(ctx context.Context) error {
	alone, err := t.cost(ctx, t.finish)
	if err != nil {
		return err
	}
	if err := t.ring.cluster(ctx, "down"); err != nil {
		return err
	}
	if err := t.web.reset(ctx); err != nil {
		return err
	}
	if err := t.upWith(ctx, "three"); err != nil {
		return err
	}
	three, err := t.cost(ctx, func(ctx context.Context) error {
		return apoidea(ctx, "", append([]string{"crawl", "--quiet", "--wait", "--data-dir", t.ring.peerDir(t.waiter)}, t.web.seeds...)...)
	})
	if err != nil {
		return err
	}
	pages := float64(len(t.web.truth.URLs))
	ratio := alone.cpu.Seconds() / three.cpu.Seconds()
	t.say("throughput by processor time %.2f of that with r = 1 (bound %.2f): %.0f and %.0f us a page, %.0f and %.0f pages/s",
		ratio, leastThroughput, 1e6*three.cpu.Seconds()/pages, 1e6*alone.cpu.Seconds()/pages, pages/three.wall.Seconds(), pages/alone.wall.Seconds())
	if ratio < leastThroughput {
		t.blame("throughput %.2f of that with r = 1", ratio)
	}
	return nil
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
