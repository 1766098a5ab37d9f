package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// trial is one crawl with one fault.
type trial struct {
	options
	sc   *scenario
	seed uint64
	size shape
	rng  *rand.Rand
	dir  string

	web  *web
	ring *ring
	all  []*ring // the ring's peers by directory; the first is ring, and most trials have no other
	// waiter is the peer that the job is posted to and that waits for its end: it is done no harm,
	// but where all are.
	waiter int
	// members is how many the ring must have in the end.
	members int

	group  sync.WaitGroup // of all that ends with the trial's context
	crawl  *crawl
	kills  []time.Time
	healed *healed // nil where the bounds hold from the start
	harness.Verdict
}

// healed is what the web had seen when the ring was whole again after a partition. The audit begins
// anew there, and from there on the bounds hold.
type healed struct {
	asked map[string]int
	total webgen.AuditHost
}

// crawl is `apoidea crawl --wait`, under way.
type crawl struct {
	done chan struct{}
	err  error // valid once done is closed
}

func (c *crawl) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func newTrial(o options, s *scenario, seed uint64) *trial {
	t := &trial{options: o, sc: s, seed: seed, size: s.size, members: s.peers}
	if o.quick && s.quick.hosts > 0 {
		t.size = s.quick
	}
	t.rng = rand.New(rand.NewPCG(seed, 0))
	t.dir = filepath.Join(o.work, fmt.Sprintf("%s.%d", s.name, seed))
	return t
}

// Besides what the crawl takes at least and the fault itself, a trial may take this long.
const slack = 2 * time.Minute

// run does the trial; what was seen is in the verdict, and an error is a trial that could not
// be done.
func (t *trial) run(ctx context.Context) error {
	begin := time.Now()
	all, cancel := context.WithCancel(ctx) // the web and its audit outlast a crawl that takes too long
	defer t.group.Wait()
	defer cancel()
	ctx, stop := context.WithTimeout(all, 2*time.Duration(t.size.pages)*t.size.delay+t.sc.lasts+slack)
	defer stop()
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	listen, domain := fmt.Sprintf("127.0.0.1:%d", t.port), "web.localhost"
	if t.spaces != "" {
		listen, domain = fmt.Sprintf("0.0.0.0:%d", t.port), "web.test"
	}
	var err error
	if t.web, err = serveWeb(all, listen, domain, t.seed, t.size, &t.group); err != nil {
		return err
	}
	defer func() {
		for _, r := range t.all {
			r.end()
		}
	}()
	if err := harness.Try(func() { t.sc.up(t, ctx) }); err != nil {
		return err
	}
	return t.crawlAndJudge(ctx, begin)
}

// up makes a ring of the scenario's size.
func (t *trial) up(ctx context.Context) {
	t.ring = &ring{dir: filepath.Join(t.dir, "r")}
	t.all = []*ring{t.ring}
	t.waiter = 1 + t.rng.IntN(t.sc.peers)
	harness.Check(t.ring.up(ctx, t.sc.peers, t.peerArgs()...))
}

// peerArgs are what all peers are started with. Peers of one machine are equally near to a site, so
// that by rtt each would crawl what it owns; in half of the trials hosts are crawled by others than
// their owners.
func (t *trial) peerArgs() []string {
	placement := "rtt"
	if t.sc.strangers || t.seed%2 == 1 {
		placement = "random"
	}
	return []string{"--allow-private", "--archive", "none", "--delay", t.size.delay.String(), "--placement", placement, "--log-level", t.logLevel}
}

func (t *trial) crawlAndJudge(ctx context.Context, begin time.Time) error {
	if err := t.post(ctx); err != nil {
		return err
	}
	if err := harness.Try(func() { t.sc.fault(t, ctx) }); err != nil {
		t.Blame("%v", err)
	}
	if err := t.finish(ctx); err != nil {
		t.Blame("%v", err)
	}
	// What was reached is judged even if time is up.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	t.judge(last)
	t.Say("%.0f s", time.Since(begin).Seconds())
	return nil
}

// post has the waiter take the job and, where it lives on, wait for its end.
func (t *trial) post(ctx context.Context) error {
	args := append([]string{"crawl", "--data-dir", t.ring.peerDir(t.waiter)}, t.web.seeds...)
	if t.sc.harmsAll {
		return apoidea(ctx, "", args...)
	}
	c := &crawl{done: make(chan struct{})}
	t.crawl = c
	t.group.Go(func() {
		defer close(c.done)
		c.err = apoidea(ctx, "", append(args, "--wait")...)
	})
	return nil
}

// finish waits for the end of the crawl.
func (t *trial) finish(ctx context.Context) (err error) {
	if t.crawl == nil {
		cl := t.ring.client(t.waiter)
		defer cl.Close()
		err = cl.Wait(ctx, "", -1, func(control.Progress) error { return nil })
	} else {
		<-t.crawl.done // ends with ctx
		err = t.crawl.err
	}
	if err = errors.Join(ctx.Err(), err); err != nil {
		return fmt.Errorf("crawl did not end: %w", err)
	}
	return nil
}

// judge compares what the web saw and what the ring says with what should be.
func (t *trial) judge(ctx context.Context) {
	a, asked := t.web.look(), t.web.Asked()
	if t.healed != nil {
		t.judgeHealed(asked, &a.Totals)
	} else {
		t.judgeAgain(&a.Totals)
	}
	t.judgeLost(ctx, asked)
	t.judgeManners(&a.Totals)
	t.judgeTakeOver()
	t.judgeRefusals(ctx)
	if _, err := t.ring.closed(ctx, t.waiter, t.members, 30*time.Second); err != nil {
		t.Blame("%v", err)
	}
}

// judgeLost counts the pages of the truth that nobody asked for, and those whose outcome the ring
// does not know in the end or knows twice.
func (t *trial) judgeLost(ctx context.Context, asked map[string]int) {
	records, err := t.records(ctx)
	if err != nil {
		t.Blame("%v", err)
	}
	lost, unknown, twice := 0, 0, 0
	for _, u := range t.web.truth.URLs {
		// While an audit begins anew some requests go uncounted; what they brought is on record.
		if asked[u] == 0 && (t.healed == nil || records[u] == 0) {
			lost++
		}
		switch n := records[u]; {
		case n == 0:
			unknown++
		case n > 1:
			twice++
		}
	}
	t.Say("lost %d of %d pages, %d records", lost, len(t.web.truth.URLs), unknown)
	if lost > 0 || unknown > 0 {
		t.Blame("lost %d pages, %d records, bound 0", lost, unknown)
	}
	if twice > 0 {
		t.Blame("%d pages have two records", twice)
	}
}

// records counts, for each URL, the successful outcomes that the ring lists.
func (t *trial) records(ctx context.Context) (map[string]int, error) {
	cmd := command(ctx, "", "export", "urls", "--ring", "--data-dir", t.ring.peerDir(t.waiter))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("export urls --ring: %w: %s", err, harness.LastLine(errOut.Bytes()))
	}
	found := make(map[string]int)
	return found, errors.Join(err, harness.Records(bytes.NewReader(out), func(u *control.URLLine) {
		if u.Outcome == "ok" || u.Outcome == "duplicate" || u.Outcome == "noindex" {
			found[u.URL]++
		}
	}))
}

func (t *trial) judgeAgain(total *webgen.AuditHost) {
	share := 100 * float64(total.RepeatedRequests) / float64(max(total.DistinctURLs, 1))
	switch {
	case t.sc.inFlight > 0:
		t.Say("fetched again %d (%.2f %%, bound %d)", total.RepeatedRequests, share, t.sc.inFlight)
		if total.RepeatedRequests > t.sc.inFlight {
			t.Blame("fetched again %d, bound %d", total.RepeatedRequests, t.sc.inFlight)
		}
	case t.sc.again > 0:
		t.Say("fetched again %d (%.2f %%, bound %g %%)", total.RepeatedRequests, share, t.sc.again)
		if share >= t.sc.again {
			t.Blame("fetched again %.2f %%, bound %g %%", share, t.sc.again)
		}
	default:
		t.Say("fetched again %d (bound 0)", total.RepeatedRequests)
		if total.RepeatedRequests > 0 && t.web.pulse.Most() < 6*time.Second { // leases lapse in a process that stands for longer
			t.Blame("fetched again %d, bound 0", total.RepeatedRequests)
		}
	}
}

// judgeHealed adds what was asked for before the heal to asked, and says what came after it.
func (t *trial) judgeHealed(asked map[string]int, total *webgen.AuditHost) {
	again := total.RepeatedRequests
	for u, n := range t.healed.asked {
		again += int64(min(asked[u], 1)) // the first since then; the audit knows the others
		asked[u] += n
	}
	h := &t.healed.total
	t.Say("until it was whole %d fetched again (%.2f %%), %d overlaps; since then %d fetched again (bound 0)",
		h.RepeatedRequests, 100*float64(h.RepeatedRequests)/float64(max(h.DistinctURLs, 1)), h.Overlaps, again)
	if again > 0 {
		t.Blame("fetched again %d since the heal", again)
	}
}

// gapSlack is how much earlier than the delay a request may seem to come: the worker counts from
// the end of the response as it sees it.
const gapSlack = 5 * time.Millisecond

// judgeManners looks at what sites would mind: two workers at once, a delay that is not kept when
// the worker changes.
func (t *trial) judgeManners(total *webgen.AuditHost) {
	t.Say("overlaps %d", total.Overlaps)
	if total.Overlaps > 0 {
		t.Blame("overlaps %d, bound 0", total.Overlaps)
	}
	delay := float64(t.size.delay.Milliseconds())
	if gap := total.SmallestGapMS; gap != nil {
		t.Say("gap %.1f ms of %.0f", *gap, delay)
		if *gap < delay-float64(gapSlack.Milliseconds()) {
			t.Blame("gap across workers %.1f ms, delay %.0f", *gap, delay)
		}
	}
	if gap := total.SmallestGapWithinMS; gap != nil && *gap < delay-float64(gapSlack.Milliseconds()) {
		t.Blame("gap of one worker %.1f ms, delay %.0f", *gap, delay)
	}
	violations := total.RobotsViolations
	if t.healed != nil {
		violations = total.Disallowed // robots.txt was read before the audit began anew
	}
	if violations > 0 {
		t.Blame("robots.txt violated %d times", violations)
	}
}

// judgeRefusals counts what peers refused each other, none of whom lies. To come again is no
// refusal: who joins is not known at once.
func (t *trial) judgeRefusals(ctx context.Context) {
	var refused, later int64
	dirs, err := filepath.Glob(filepath.Join(t.dir, "*", "peer*")) // of both halves, where there are two
	for _, dir := range dirs {
		c := control.NewClient(harness.Socket(dir))
		peers, callErr := c.Peers(ctx)
		c.Close()
		if callErr != nil {
			continue // it is dead, or has left
		}
		for _, p := range peers {
			if r := p.Refused; r != nil {
				refused, later = refused+r.Requests-r.Later, later+r.Later
				if r.Requests > r.Later {
					t.Blame("%s refused %s a request: %s: %s", filepath.Base(dir), p.Peer, r.Request, r.Why)
				}
			}
		}
	}
	if err != nil {
		t.Blame("%v", err)
	}
	t.Say("refused %d requests, asked to come again %d", refused, later)
}

// takeOver bounds the time from a death until every host that it held up is asked again.
const takeOver = 15 * time.Second

func (t *trial) judgeTakeOver() {
	slowest, last, of := time.Duration(0), "", time.Time{}
	for _, at := range t.kills {
		if after, host := t.web.resumed(at); after > slowest {
			slowest, last, of = after, host, at
		}
	}
	if slowest == 0 {
		return
	}
	stood := t.web.pulse.Most()
	t.Say("taken over in %.1f s (bound %.0f; the machine stood for %.1f)", slowest.Seconds(), takeOver.Seconds(), stood.Seconds())
	if slowest > takeOver+stood {
		t.Blame("%s taken over %.1f s after the death of %s", last, slowest.Seconds(), of.UTC().Format("15:04:05.0"))
	}
}
