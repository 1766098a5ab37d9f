package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// scenario is one kind of harm and what may come of it.
type scenario struct {
	name, words string
	peers       int
	// seeds is the number of trials; quickSeeds that of the quick subset, 0 if it is not in it.
	seeds, quickSeeds int
	size, quick       shape
	lasts             time.Duration // what the fault adds to the crawl's time at most
	// again bounds the pages fetched again in percent (below, not at it), inFlight in number;
	// without either none may be.
	again    float64
	inFlight int64
	// strangers has hosts crawled by others than their owners in each trial.
	strangers bool
	harmsAll  bool // no peer is left to wait for the end
	apart     bool // the peers live in network namespaces
	// up makes the ring, and fault does the harm; both end by harness.Check.
	up, fault func(t *trial, ctx context.Context)
}

// The webs: what the crawl of one takes at least is pages x delay. Some five thousand pages in 15
// s, 20 thousand in 50 s, and longer ones for faults that take longer themselves.
var (
	small  = shape{48, 120, 100 * time.Millisecond}
	middle = shape{48, 300, 80 * time.Millisecond}
	medium = shape{48, 500, 80 * time.Millisecond}
	long   = shape{48, 600, 150 * time.Millisecond}
	tiny   = shape{12, 60, 60 * time.Millisecond}
	longer = shape{48, 600, 250 * time.Millisecond}
)

// perPeer is what a peer may have in flight when it is killed.
const perPeer = 64

var scenarios = []*scenario{
	{
		name: "none", words: "no harm: what the harness says of a crawl that is left alone",
		peers: 8, seeds: 1, size: small, quick: small, fault: (*trial).nothing,
	},
	{
		name: "smoke", words: "kill -9 of one of three, in half a minute",
		peers: 3, seeds: 1, size: tiny, quick: tiny, inFlight: perPeer, fault: (*trial).killOne,
	},
	{
		name: "kill-one", words: "kill -9 of one of eight",
		peers: 8, seeds: 20, size: medium, quick: middle, again: 1, fault: (*trial).killOne,
	},
	{
		name: "kill-two", words: "kill -9 of two of eight at once, neighbours on the ring",
		peers: 8, seeds: 3, quickSeeds: 1, size: medium, quick: small, again: 2, fault: (*trial).killTwo,
	},
	{
		name: "leave-half", words: "half of eight leave in good order, one by one",
		peers: 8, seeds: 2, quickSeeds: 1, size: medium, quick: small, fault: (*trial).leaveHalf,
	},
	{
		name: "stop-owner", words: "SIGSTOP of a peer that owns hosts which others crawl, then SIGCONT",
		peers: 8, seeds: 2, quickSeeds: 1, size: long, quick: small, lasts: stopped, again: 1, strangers: true, fault: (*trial).stopOwner,
	},
	{
		name: "stop-worker", words: "SIGSTOP of a peer that crawls hosts of others, then SIGCONT",
		peers: 8, seeds: 2, size: long, quick: small, lasts: stopped, again: 1, strangers: true, fault: (*trial).stopWorker,
	},
	{
		name: "restart-all", words: "kill -9 of all eight, started again in random order",
		peers: 8, seeds: 3, quickSeeds: 1, size: medium, quick: small, inFlight: 8 * perPeer, harmsAll: true, fault: (*trial).restartAll,
	},
	{
		name: "turnover", words: "four of sixteen killed one after another, four new ones join",
		peers: 16, seeds: 2, size: long, lasts: time.Minute, again: 3, fault: (*trial).turnover,
	},
	{
		name: "join", words: "peers join a ring of sixteen while it crawls",
		peers: 16, seeds: 1, size: long, fault: (*trial).join,
	},
	{
		name: "partition", words: "the ring in halves for a minute, then whole again",
		peers: 8, seeds: 1, size: longer, lasts: time.Minute, apart: true, up: (*trial).upApart, fault: (*trial).partition,
	},
	{
		name: "slow-lines", words: "each half of the ring behind a slow line with a long queue for a minute",
		peers: 8, seeds: 1, size: long, lasts: time.Minute, again: 1, apart: true, up: (*trial).upApart, fault: (*trial).slowLines,
	},
	{
		name: "replication-cost", words: "processor time a page with replication, compared with r = 1",
		peers: 8, seeds: 1, size: shape{48, 1000, 0}, lasts: 15 * time.Minute, up: (*trial).upAlone, fault: (*trial).compareCost,
	},
}

func init() {
	for _, s := range scenarios {
		if s.up == nil {
			s.up = (*trial).up
		}
	}
}

func (t *trial) nothing(ctx context.Context) { harness.Check(t.web.until(ctx, 0.5)) }

// moment waits for a moment of the crawl: far enough in that every peer has work, not so late that
// none is left.
func (t *trial) moment(ctx context.Context) {
	harness.Check(t.web.until(ctx, 0.1+0.55*t.rng.Float64()))
}

// others are the peers but the waiter, shuffled.
func (t *trial) others() []int {
	var list []int
	for i := 1; i <= t.sc.peers; i++ {
		if i != t.waiter {
			list = append(list, i)
		}
	}
	t.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// kill ends peers as a crash does, and says when.
func (t *trial) kill(peers ...int) {
	t.kills = append(t.kills, time.Now())
	t.members -= len(peers)
	harness.Check(t.ring.signal(syscall.SIGKILL, peers...))
}

// settleTime is how long a ring may take to close after a change.
const settleTime = 30 * time.Second

// settle waits until the ring is closed again with those that are left.
func (t *trial) settle(ctx context.Context) {
	took := harness.Must(t.ring.closed(ctx, t.waiter, t.members, settleTime))
	t.Say("ring closed in %.1f s", took.Seconds())
}

// killOne kills any peer, in every other trial one that owns hosts, in every fourth the one that
// keeps the job.
func (t *trial) killOne(ctx context.Context) {
	victims := t.others()
	t.moment(ctx)
	victim, what := victims[0], ""
	switch t.seed % 4 {
	case 1, 3:
		held := t.held(ctx, func(h control.HostLine) string { return h.Owner })
		victim = slices.MaxFunc(victims, func(a, b int) int { return min(held[a], 1) - min(held[b], 1) })
	case 2:
		if o := t.ring.jobOwner(ctx, t.waiter); o != 0 && o != t.waiter {
			victim, what = o, ", which keeps the job,"
		}
	}
	t.Say("peer %d%s killed after %d of %d requests", victim, what, t.web.requests(), t.web.whole())
	t.kill(victim)
	t.settle(ctx)
}

// held counts hosts with pages left by the peer that of names.
func (t *trial) held(ctx context.Context, of func(control.HostLine) string) map[int]int {
	lines := harness.Must(t.ring.hosts(ctx, t.waiter))
	held := make(map[int]int)
	for _, h := range lines {
		if h.Pending > 0 {
			held[t.ring.names[of(h)]]++
		}
	}
	return held
}

func (t *trial) killTwo(ctx context.Context) {
	order := harness.Must(t.ring.order(ctx, t.waiter))
	t.moment(ctx)
	first := 1 + t.rng.IntN(len(order)-2) // the waiter is at 0
	t.Say("neighbours %d and %d killed after %d of %d requests", order[first], order[first+1], t.web.requests(), t.web.whole())
	t.kill(order[first], order[first+1])
	t.settle(ctx)
}

func (t *trial) leaveHalf(ctx context.Context) {
	leaving := t.others()[:t.sc.peers/2]
	harness.Check(t.web.until(ctx, 0.15))
	begin, slowest := t.web.requests(), time.Duration(0)
	for _, i := range leaving {
		at := time.Now()
		harness.Check(t.ring.cluster(ctx, "leave", strconv.Itoa(i)))
		slowest = max(slowest, time.Since(at))
		t.members--
	}
	t.Say("peers %v left from %d to %d of %d requests, the slowest in %.1f s", leaving, begin, t.web.requests(), t.web.whole(), slowest.Seconds())
	t.stillCrawling()
	t.settle(ctx)
}

// stillCrawling says if a fault outlasted the crawl that it was to disturb.
func (t *trial) stillCrawling() {
	if t.crawl != nil && t.crawl.ended() {
		t.Blame("the crawl ended before the fault did")
	}
}

// stopped is how long a peer is stopped: longer than a lease, and than it takes to be given up.
const (
	stopped      = 30 * time.Second
	stoppedQuick = 12 * time.Second
)

func (t *trial) stopOwner(ctx context.Context) {
	t.stop(ctx, "owner", func(h control.HostLine) string { return h.Owner })
}

func (t *trial) stopWorker(ctx context.Context) {
	t.stop(ctx, "worker", func(h control.HostLine) string { return h.Worker })
}

// stop stops for a while the peer that is named by most of the hosts which another peer crawls than
// their owner.
func (t *trial) stop(ctx context.Context, what string, of func(control.HostLine) string) {
	harness.Check(t.web.until(ctx, 0.1+0.1*t.rng.Float64()))
	lines := harness.Must(t.ring.hosts(ctx, t.waiter))
	fitting, held := make(map[int]int), make(map[int]int)
	for _, h := range lines {
		held[t.ring.names[of(h)]]++
		if h.Worker != h.Owner {
			fitting[t.ring.names[of(h)]]++
		}
	}
	victim := slices.MaxFunc(t.others(), func(a, b int) int { return 100*(fitting[a]-fitting[b]) + held[a] - held[b] })
	d := stopped
	if t.quick {
		d = stoppedQuick
	}
	t.Say("%s %d (%d hosts, %d of them with another) stopped for %v after %d of %d requests", what, victim, held[victim], fitting[victim], d, t.web.requests(), t.web.whole())
	harness.Check(t.ring.signal(syscall.SIGSTOP, victim))
	// It goes on in any case, since a stopped process does not end.
	err := harness.Sleep(ctx, d)
	harness.Check(errors.Join(err, t.ring.signal(syscall.SIGCONT, victim)))
	if !t.quick {
		t.stillCrawling()
	}
	t.settle(ctx)
}

func (t *trial) restartAll(ctx context.Context) {
	t.moment(ctx)
	order := append(t.others(), t.waiter)
	t.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	t.Say("all killed after %d of %d requests, started as %v", t.web.requests(), t.web.whole(), order)
	harness.Check(t.ring.signal(syscall.SIGKILL, order...))
	for _, i := range order {
		harness.Check(harness.Sleep(ctx, time.Duration(t.rng.Int64N(int64(time.Second)))))
		harness.Check(t.ring.cluster(ctx, "start", strconv.Itoa(i)))
	}
	t.settle(ctx)
}

func (t *trial) turnover(ctx context.Context) {
	harness.Check(t.web.until(ctx, 0.1))
	begin := t.web.requests()
	victims := t.others()[:t.sc.peers/4]
	slowest := time.Duration(0)
	for i, victim := range victims {
		t.kill(victim)
		harness.Check(harness.Sleep(ctx, time.Duration(t.rng.Int64N(int64(3*time.Second)))))
		took := t.addOne(ctx, t.sc.peers+i+1)
		slowest = max(slowest, took)
		_ = harness.Must(t.ring.closed(ctx, t.waiter, t.members, settleTime))
		harness.Check(harness.Sleep(ctx, 5*time.Second))
	}
	t.Say("%v killed and as many joined (slowest %.1f s) from %d to %d of %d requests", victims, slowest.Seconds(), begin, t.web.requests(), t.web.whole())
	t.stillCrawling()
}

// addOne starts a new peer, the next number, and says how long it took to serve.
func (t *trial) addOne(ctx context.Context, number int) time.Duration {
	begin := time.Now()
	added := make(chan error, 1)
	go func() { added <- t.ring.cluster(ctx, "add", "1") }() // ends with ctx, and is waited for below
	took := time.Duration(0)
	for took == 0 {
		select {
		case err := <-added:
			harness.Check(err)
			added <- nil
		default:
		}
		if s, err := t.ring.status(ctx, number); err == nil && s.State != "joining" {
			took = time.Since(begin)
		} else if err := harness.Sleep(ctx, 50*time.Millisecond); err != nil {
			harness.Check(fmt.Errorf("peer %d does not serve: %w", number, errors.Join(err, <-added)))
		}
	}
	t.members++
	harness.Check(<-added)
	harness.Check(t.ring.learn(ctx, number))
	return took
}

// joinTime bounds the time from the start of a peer's process until it serves, in a ring of
// sixteen.
const joinTime = 5 * time.Second

func (t *trial) join(ctx context.Context) {
	harness.Check(t.web.until(ctx, 0.1))
	slowest := time.Duration(0)
	for i := range 4 {
		took := t.addOne(ctx, t.sc.peers+i+1)
		slowest = max(slowest, took)
	}
	t.Say("4 peers joined, the slowest served after %.1f s (bound %.0f)", slowest.Seconds(), joinTime.Seconds())
	if slowest >= joinTime {
		t.Blame("a join took %.1f s", slowest.Seconds())
	}
	t.stillCrawling()
	t.settle(ctx)
}
