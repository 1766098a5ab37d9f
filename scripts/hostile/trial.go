package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// The bounds of every trial, besides those of its family.
const (
	mostRSS      = 350 << 20
	apiWithin    = 200 * time.Millisecond
	endWithin    = 2 * time.Second
	idleWithin   = 12 * time.Minute
	quickWithin  = 70 * time.Second
	backWithin   = time.Minute
	mostLogLines = 200
	mostDisk     = 256 << 20
	rssSlack     = 96 << 20 // caches of the database and filters of URL sets are filled once, and stay
	routineSlack = 30
	filesSlack   = 30
	diskSlack    = 64 << 20
	mostThreads  = 128
	mostRoutines = 5000
	mostFiles    = 1500
	trialDelay   = 20 * time.Millisecond
	delaySlack   = 5 * time.Millisecond
	budget       = 2000        // requests to a host: at the trial's delay the default, 50,000, would take a quarter of an hour
	patience     = time.Minute // of the crawl of one family
)

// familyRetries bounds the tries of a URL in the crawl of one family, and in the quick trial.
const familyRetries = uint32(1)

// report is the verdict of a trial.
type report struct {
	Name   string
	CrawlS float64
	EndS   float64
	// Start, Most and Back are what the worst peer used: before, at most, and after the crawl.
	Start, Most, Back use
	// APIMs is the slowest answer beyond what the machine took, which MachineMs is at most: the
	// answer of a peer with nothing to do, or waiting for a processor.
	APIMs     float64
	MachineMs float64
	Requests  int
	Hosts     int
	Against   int          // requests that robots.txt forbids, or before it was read
	MostAsked []*hostAudit // of each family
	harness.Verdict

	sites []*siteReport
}

func (r *report) line() string {
	text := fmt.Sprintf("%5.0f s, %5d requests of %4d hosts, %d against robots.txt; RSS %3d MiB at most, %3d after (%d); goroutines %d, %d (%d); files %d, %d (%d); log %d lines; API %.0f ms",
		r.CrawlS, r.Requests, r.Hosts, r.Against, r.Most.Peak>>20, r.Back.RSS>>20, r.Start.RSS>>20, r.Most.Goroutines, r.Back.Goroutines, r.Start.Goroutines,
		r.Most.Files, r.Back.Files, r.Start.Files, max(r.Most.LogLines, r.Back.LogLines), r.APIMs)
	if r.EndS > 0 {
		text += fmt.Sprintf("; Ctrl-C %.1f s", r.EndS)
	}
	return strings.Join(append([]string{text}, r.Notes...), "; ")
}

// trial is one trial under way.
type trial struct {
	trialPlan
	o      *options
	w      *world
	still  *peer
	report *report
	peers  []*peer
	urls   map[string]string // outcomes by URL; filled in when the crawl is over
}

// runTrial runs one trial; errors are violations as well.
func runTrial(ctx context.Context, o *options, w *world, still *peer, tp trialPlan) *report {
	t := &trial{trialPlan: tp, o: o, w: w, still: still, report: &report{Name: tp.name}}
	w.audit.forget()
	w.questions.take()
	w.trespass.take()
	defer func() {
		for _, p := range t.peers {
			p.Kill()
		}
	}()
	run := t.alone
	switch {
	case o.legit:
		run = t.legit
	case t.interrupt:
		run = t.interrupted
	case t.untilIdle:
		run = t.together
	}
	if err := run(ctx); err != nil {
		t.report.Blame("%v", err)
	}
	return t.report
}

// peerArgs are the flags of all peers: a public peer's politeness and bounds. A ring on loopback is
// of the lab profile, with the same bounds by hand, since public peers do not announce addresses of
// loopback. Real sites have the profile's own bounds.
func (t *trial) peerArgs() []string {
	args := []string{"--profile", t.profile, "--network", "hostile", "--allow-private=" + allowedPrefix, "--dns-server", t.w.dnsAddr}
	switch {
	case t.o.legit:
		args = append(args, "--delay", legitDelay.String())
		if t.profile == "public" {
			// The sites share their addresses' permits, which the delay does not raise above 2400 a
			// minute.
			args = append(args, "--ip-permits", "1000000", "--optout-proof", "no")
		}
	case t.profile == "lab":
		args = append(args, "--page-hosts", "1000", "--domain-hosts", "1000", "--ip-permits", "2400", "--placement", "random")
	}
	if t.profile == "public" {
		args = append(args, "--contact", "https://crawler.example/", "--admission", "open", "--reachability", "public", "--nat-traversal", "off")
	}
	if !t.o.legit {
		args = append(args, "--delay", trialDelay.String(), "--optout-proof", "no", "--max-requests-per-host", fmt.Sprint(budget))
	}
	return append(args, strings.Fields(t.o.extra)...)
}

// seeds are those of all families.
func (t *trial) seeds() (seeds []string) {
	for _, f := range t.families {
		seeds = append(seeds, f.seeds(t.w)...)
	}
	return seeds
}

// crawlArgs are the flags and arguments of a peer that crawls the families until it is idle.
func (t *trial) crawlArgs() []string {
	args := []string{"--until-idle"}
	for _, f := range t.families {
		for _, s := range f.scope() {
			args = append(args, "--scope", s)
		}
	}
	return append(args, t.seeds()...)
}

// startPeers starts the peers of a trial, which find each other; the last one has further
// arguments.
func (t *trial) startPeers(ctx context.Context, last ...string) error {
	name := strings.ReplaceAll(t.name, " ", "-")
	args := t.peerArgs()
	for i := range t.trialPlan.peers {
		of := name
		if t.trialPlan.peers > 1 {
			of = fmt.Sprintf("%s%d", name, i+1)
		}
		if i == t.trialPlan.peers-1 {
			args = append(args, last...)
		}
		p, err := start(ctx, t.o, of, args...)
		if err != nil {
			return err
		}
		t.peers = append(t.peers, p)
		if i == 0 && t.trialPlan.peers > 1 {
			addrs, err := p.Addrs(ctx)
			if err != nil {
				return err
			}
			args = append(args, "--bootstrap", addrs[0])
		}
	}
	return nil
}

// job posts a job to the first peer and waits until nothing is left to do.
func (t *trial) job(ctx context.Context, spec control.JobSpec) error {
	client := t.peers[0].Client
	job, err := client.Post(ctx, spec)
	if err != nil {
		return err
	}
	return client.Wait(ctx, job.ID, patience, func(control.Progress) error { return nil })
}

// alone has one peer, which has crawled an ordinary site, crawl the family as a job.
func (t *trial) alone(ctx context.Context) (err error) {
	f := t.families[0]
	if err := t.startPeers(ctx); err != nil {
		return err
	}
	// What is allocated once must be there before the peer's use at the start is read.
	if _, err := t.limited(ctx, 2*time.Minute, func(ctx context.Context) error {
		return t.job(ctx, control.JobSpec{URLs: t.w.urls(f.name, "good")})
	}); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	if t.report.Start, err = t.peers[0].use(ctx); err != nil {
		return err
	}
	within := f.within
	if within == 0 {
		within = crawlWithin
	}
	retries := familyRetries
	err = t.crawl(ctx, within, func(ctx context.Context) error {
		return t.job(ctx, control.JobSpec{URLs: t.seeds(), Scope: f.scope(), Retries: &retries})
	})
	t.judge(ctx)
	if err == nil { // a crawl that goes on has nothing to return to
		t.back(ctx)
	}
	return errors.Join(err, t.end())
}

// legit has peers crawl real sites as a job with the defaults of the profile.
func (t *trial) legit(ctx context.Context) error {
	within := legitWithin
	if t.o.quick {
		within = legitQuickWithin
	}
	if err := t.startPeers(ctx); err != nil {
		return err
	}
	took, err := t.limited(ctx, within, func(ctx context.Context) error {
		return t.job(ctx, control.JobSpec{URLs: t.seeds()})
	})
	t.report.CrawlS = took.Seconds()
	t.judge(ctx)
	return err
}

// limited bounds the time of fn, and returns the time that it took.
func (t *trial) limited(ctx context.Context, within time.Duration, fn func(ctx context.Context) error) (time.Duration, error) {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := fn(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the crawl has not ended after %v%s", within, t.state(ctx))
	}
	return time.Since(begun), err
}

// crawl observes the peers while fn runs.
func (t *trial) crawl(ctx context.Context, within time.Duration, fn func(ctx context.Context) error) error {
	looking, stop := context.WithCancel(ctx)
	watches := watching(looking, t.peers, t.still)
	took, err := t.limited(ctx, within, fn)
	t.report.CrawlS = took.Seconds()
	stop()
	for _, w := range watches {
		w.group.Wait()
		t.note(w)
	}
	return err
}

// state describes a crawl that does not end.
func (t *trial) state(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := t.peers[0].Client.Status(ctx, true)
	if err != nil {
		return ", and the peer does not answer: " + err.Error()
	}
	return fmt.Sprintf(": %d URLs pending, %d leased, %d wait for another try (next in %.0f s)", s.URLsPending, s.URLsLeased, s.URLsWaiting, s.NextRetryS)
}

// note adds what a watch saw to the report. All of its goroutines have ended.
func (t *trial) note(w *watch) {
	r, m := t.report, &w.most
	if u, err := w.peer.use(nil); err == nil { //nolint:staticcheck // nil: without the peer's metrics
		m.Peak = max(m.Peak, u.Peak)
	}
	r.Most.raise(m)
	r.APIMs, r.MachineMs = max(r.APIMs, milliseconds(w.slowest)), max(r.MachineMs, milliseconds(w.machine))
	if w.slowest > apiWithin {
		r.Blame("the control API took %v, %v after the start (bound %v; the machine took up to %v besides)",
			w.slowest.Round(time.Millisecond), w.slowestAt.Round(100*time.Millisecond), apiWithin, w.machine.Round(time.Millisecond))
	}
	if w.refused > 0 {
		r.Blame("%d of %d questions to the control API got no answer", w.refused, w.asked)
	}
	for addr, n := range w.outside {
		r.Blame("a connection to %s, which is not of loopback, in %d looks", addr, n)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// back waits until a peer that has nothing to do uses no more than before the crawl.
func (t *trial) back(ctx context.Context) {
	s := t.report.Start
	bounds := use{RSS: s.RSS + rssSlack, Goroutines: s.Goroutines + routineSlack, Files: s.Files + filesSlack, Disk: s.Disk + diskSlack}
	for begun := time.Now(); ; time.Sleep(time.Second) {
		u, err := t.peers[0].use(ctx)
		if err != nil {
			t.report.Blame("after the crawl: %v", err)
			return
		}
		t.report.Back = u
		over := u.over(&bounds)
		if len(over) == 0 {
			return
		}
		if time.Since(begun) > backWithin {
			t.report.Blame("not back a minute after the crawl: %s", strings.Join(over, "; "))
			return
		}
	}
}

// end interrupts all peers. Those of a ring, which would hand their records over, end at once by a
// second Ctrl-C.
func (t *trial) end() error {
	var group sync.WaitGroup
	took := make([]time.Duration, len(t.peers))
	errs := make([]error, len(t.peers))
	for i, p := range t.peers {
		group.Go(func() {
			took[i], errs[i] = p.interrupt(20*time.Second, len(t.peers) > 1)
			if errs[i] == nil && took[i] > endWithin {
				errs[i] = fmt.Errorf("%s ended %v after Ctrl-C, bound %v", filepath.Base(p.Dir), took[i].Round(10*time.Millisecond), endWithin)
			}
		})
	}
	group.Wait()
	if len(t.peers) == 1 {
		t.report.EndS = took[0].Seconds()
	}
	return errors.Join(errs...)
}

// interrupted ends a peer by Ctrl-C at some moment of its crawl.
func (t *trial) interrupted(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(t.o.seed, hashOf(t.families[0].name)))
	after := time.Duration(200+rng.IntN(9800)) * time.Millisecond
	if err := t.startPeers(ctx, t.crawlArgs()...); err != nil {
		return err
	}
	done := false
	_ = t.crawl(ctx, time.Minute, func(ctx context.Context) error {
		select {
		case <-time.After(after):
		case <-t.peers[0].Done:
			done = true
		case <-ctx.Done():
		}
		return nil
	})
	if done {
		t.report.Say("ended before %v", after)
		if t.peers[0].Err != nil {
			return t.peers[0].Ended()
		}
		return nil
	}
	t.report.Say("interrupted after %v", after)
	return t.end()
}

// together has one peer or a ring crawl all families by `run --until-idle`, as a person would.
func (t *trial) together(ctx context.Context) error {
	args, within := t.crawlArgs(), idleWithin
	if t.o.quick {
		args, within = append(args, "--retries", fmt.Sprint(familyRetries)), quickWithin
	}
	if err := t.startPeers(ctx, args...); err != nil {
		return err
	}
	p := t.peers[len(t.peers)-1]
	t.report.Start, _ = p.use(ctx)
	err := t.crawl(ctx, within, func(ctx context.Context) error {
		select {
		case <-p.Done:
			if p.Err != nil {
				return p.Ended()
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.judge(ctx)
	return errors.Join(err, t.end())
}
