package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// leastThroughput is what a ring with replication must reach of one without, by CPU time a page.
const leastThroughput = 0.85

// costPairs is how often both are measured, one right after the other, each first in every second
// pair; the median of the pairs counts. How fast a machine is changes within a minute, by more than
// what is looked for here.
const costPairs = 11

// upAlone makes the first ring without replication.
func (t *trial) upAlone(ctx context.Context) { t.upWith(ctx, 1, 0) }

func (t *trial) upWith(ctx context.Context, replicas, round int) {
	t.ring = &ring{dir: filepath.Join(t.dir, fmt.Sprintf("r%d.%d", replicas, round))}
	t.all = append(t.all, t.ring)
	t.waiter = 1
	harness.Check(t.ring.up(ctx, t.sc.peers, append(t.peerArgs(), "--replicas", strconv.Itoa(replicas))...))
}

// compareCost crawls the web without replication and with it, in turns. The first ring, without, is
// up, and its crawl posted.
func (t *trial) compareCost(ctx context.Context) {
	var ratios []float64
	for i := range costPairs {
		order := []int{1, 3} // replicas
		if i%2 == 1 {
			slices.Reverse(order)
		}
		used := make(map[int]time.Duration)
		for n, replicas := range order {
			wait := t.finish
			if i > 0 || n > 0 { // a new ring in the place of the last one
				harness.Check(t.ring.cluster(ctx, "down"))
				t.web.ResetAudit()
				t.upWith(ctx, replicas, i+1)
				wait = func(ctx context.Context) error {
					return apoidea(ctx, "", append([]string{"crawl", "--quiet", "--wait", "--data-dir", t.ring.peerDir(t.waiter)}, t.web.seeds...)...)
				}
			}
			before := harness.Must(t.ring.cpu(t.sc.peers))
			harness.Check(wait(ctx))
			after := harness.Must(t.ring.cpu(t.sc.peers))
			used[replicas] = after - before
		}
		ratios = append(ratios, used[1].Seconds()/used[3].Seconds())
	}
	slices.Sort(ratios)
	median := ratios[costPairs/2]
	t.Say("throughput by CPU time %.2f of that with r = 1 (bound %.2f; %d pairs, %.2f to %.2f)", median, leastThroughput, costPairs, ratios[0], ratios[costPairs-1])
	if median < leastThroughput {
		t.Blame("throughput %.2f of that with r = 1", median)
	}
}
