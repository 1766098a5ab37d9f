package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// The bounds of every trial, besides those of its family.
const (
	mostRSS       = 350 << 20
	apiWithin     = 200 * time.Millisecond
	endWithin     = 2 * time.Second
	idleWithin    = 12 * time.Minute
	quickWithin   = 70 * time.Second
	backWithin    = time.Minute
	mostLogLines  = 200
	mostDisk      = 256 << 20
	rssSlack      = 96 << 20 // caches of the database and filters of URL sets are filled once, and stay
	routineSlack  = 30
	filesSlack    = 30
	diskSlack     = 64 << 20
	mostThreads   = 128
	mostRoutines  = 5000
	mostFiles     = 1500
	trialDelay    = 20 * time.Millisecond
	delaySlack    = 5 * time.Millisecond
	familyRetries = 1
	budget        = 2000        // requests to a host: at the trial's delay the default, 50,000, would take a quarter of an hour
	patience      = time.Minute // of the crawl of one family
)

// report is the verdict of a trial.
type report struct {
	Name     string   `json:"name"`
	Families []string `json:"families"`
	Peers    int      `json:"peers"`
	Seed     uint64   `json:"seed"`
	CrawlS   float64  `json:"crawl_s"`
	BackS    float64  `json:"back_s"`
	EndS     float64  `json:"end_s"`
	// Start, Most and Back are what the worst peer used: before, at most, and after the crawl.
	Start Use `json:"start"`
	Most  Use `json:"most"`
	Back  Use `json:"back"`
	// APIMs is the slowest answer beyond what the machine took, which MachineMs is at most: the
	// answer of a peer with nothing to do, or waiting for a processor.
	APIMs     float64          `json:"api_ms"`
	MachineMs float64          `json:"machine_ms"`
	Asked     int              `json:"asked"`
	Audits    []*Audit         `json:"audits"`
	Outcomes  map[string]int64 `json:"outcomes,omitempty"`
	harness.Verdict
}

func (r *report) line() string {
	requests, disallowed, hosts := 0, 0, 0
	for _, a := range r.Audits {
		requests += a.Requests
		disallowed += a.Disallowed + a.BeforeRobots
		hosts += a.Hosts
	}
	text := fmt.Sprintf("%5.0f s, %5d requests of %4d hosts, %d against robots.txt; RSS %3d MiB at most, %3d after (%d); goroutines %d, %d (%d); files %d, %d (%d); log %d lines; API %.0f ms",
		r.CrawlS, requests, hosts, disallowed, r.Most.Peak>>20, r.Back.RSS>>20, r.Start.RSS>>20, r.Most.Goroutines, r.Back.Goroutines, r.Start.Goroutines,
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
	watch  []*watch
	urls   map[string]string // outcomes of the first peer's records, by URL; filled in when the crawl is over
}

func (t *trial) blame(format string, args ...any) {
	t.report.Blame(format, args...)
}

// runTrial does one trial; what could not be done is a wrong as well.
func runTrial(ctx context.Context, o *options, w *world, still *peer, tp trialPlan) *report {
	t := &trial{trialPlan: tp, o: o, w: w, still: still, report: &report{Name: tp.name, Peers: tp.peers, Seed: o.seed}}
	prefix := allowsPrefix(ctx)
	t.families = nil
	for _, f := range tp.families {
		if f.needsPrefix && !prefix {
			t.report.Say("%s not judged: --allow-private takes no prefix", f.name)
			continue
		}
		t.families = append(t.families, f)
		t.report.Families = append(t.report.Families, f.name)
	}
	if len(t.families) == 0 {
		return t.report
	}
	w.audit.forget()
	w.dns.forget()
	w.trespass.take()
	defer func() {
		for _, p := range t.peers {
			p.Kill()
		}
	}()
	var err error
	switch {
	case t.interrupt:
		err = t.interrupted(ctx)
	case t.untilIdle:
		err = t.together(ctx)
	default:
		err = t.alone(ctx)
	}
	if err != nil {
		t.blame("%v", err)
	}
	return t.report
}

// allowsPrefix says whether the program can allow some private addresses and not the others.
func allowsPrefix(ctx context.Context) bool {
	out, _ := exec.CommandContext(ctx, "apoidea", "run", "--help").Output()
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--allow-private"); ok {
			return !strings.HasPrefix(rest, "  ")
		}
	}
	return false
}

// peerArgs are what all peers are started with: a public peer's manners and bounds. A ring on
// loopback is one of the lab profile, with the same bounds by hand, since public peers do not tell
// each other addresses of loopback.
func (t *trial) peerArgs(ctx context.Context) []string {
	allow := "--allow-private"
	if allowsPrefix(ctx) {
		allow += "=" + allowedPrefix
	}
	profile := []string{"--profile", "public", "--contact", "https://crawler.example/", "--reachability", "public", "--nat-traversal", "off"}
	if t.trialPlan.peers > 1 {
		profile = []string{"--profile", "lab", "--page-hosts", "1000", "--domain-hosts", "1000", "--ip-permits", "2400", "--placement", "random"}
	}
	args := append(profile,
		"--network", "hostile", allow, "--dns-server", t.w.dnsAddr, "--delay", trialDelay.String(), "--optout-proof", "no",
		"--max-requests-per-host", fmt.Sprint(budget))
	return append(args, strings.Fields(t.o.extra)...)
}

// seeds are those of all families.
func (t *trial) seeds() []string {
	var seeds []string
	for _, f := range t.families {
		seeds = append(seeds, t.w.seedsOf(f)...)
	}
	return seeds
}

// scopes are the flags for what the crawl may visit. With a family that leads to addresses beyond
// it, that is everything: what is out of scope would never be dialled.
func (t *trial) scopes() []string {
	var args []string
	for _, f := range t.families {
		if f.needsPrefix {
			return []string{"--scope", "*"}
		}
		for _, s := range f.scope() {
			args = append(args, "--scope", s)
		}
	}
	return args
}

func (t *trial) startPeer(ctx context.Context, args ...string) (*peer, error) {
	name := strings.ReplaceAll(t.name, " ", "-")
	if t.trialPlan.peers > 1 {
		name = fmt.Sprintf("%s%d", name, len(t.peers)+1)
	}
	p, err := start(ctx, t.o, name, append(t.peerArgs(ctx), args...)...)
	if err != nil {
		return nil, err
	}
	t.peers = append(t.peers, p)
	return p, nil
}

// alone has one peer, which has crawled an ordinary site, crawl the family as a job.
func (t *trial) alone(ctx context.Context) error {
	f := t.families[0]
	p, err := t.startPeer(ctx)
	if err != nil {
		return err
	}
	if err := t.warm(ctx, p); err != nil {
		return err
	}
	if t.report.Start, err = p.use(ctx); err != nil {
		return err
	}
	retries := uint32(familyRetries)
	spec := control.JobSpec{URLs: t.seeds(), Scope: f.scope(), Retries: &retries}
	if f.needsPrefix {
		spec.Scope = []string{"*"} // what is out of scope would never be dialled
	}
	within := f.within
	if within == 0 {
		within = crawlWithin
	}
	if err := t.crawl(ctx, within, func(ctx context.Context) error {
		job, err := p.Client.Post(ctx, spec)
		if err != nil {
			return err
		}
		return p.Client.Wait(ctx, job.ID, patience, func(control.Progress) error { return nil })
	}); err != nil {
		t.blame("%v", err)
		t.judge(ctx)
		return t.end() // a crawl that goes on has nothing to come back to
	}
	t.judge(ctx)
	t.back(ctx)
	return t.end()
}

// warm crawls an ordinary site, so that what is made once is there before the start's use is noted.
func (t *trial) warm(ctx context.Context, p *peer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	job, err := p.Client.Post(ctx, control.JobSpec{URLs: []string{t.w.url(t.families[0].name, "good", "/")}})
	if err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	if err := p.Client.Wait(ctx, job.ID, patience, func(control.Progress) error { return nil }); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	return nil
}

// crawl does what fn does and looks at the peers meanwhile.
func (t *trial) crawl(ctx context.Context, within time.Duration, fn func(ctx context.Context) error) error {
	looking, stop := context.WithCancel(ctx)
	for _, p := range t.peers {
		t.watch = append(t.watch, watching(looking, p, t.still))
	}
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, within)
	err := fn(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the crawl has not ended after %v%s", within, t.state(ctx))
	}
	cancel()
	t.report.CrawlS = time.Since(begun).Seconds()
	stop()
	for _, w := range t.watch {
		<-w.done
		t.note(w)
	}
	return err
}

// state says what a crawl that does not end is at.
func (t *trial) state(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := t.peers[0].Client.Status(ctx, true)
	if err != nil {
		return ", and the peer does not answer: " + err.Error()
	}
	return fmt.Sprintf(": %d URLs pending, %d leased, %d wait for another try (next in %.0f s), %d requests so far", s.URLsPending, s.URLsLeased, s.URLsWaiting, s.NextRetryS, t.requests())
}

func (t *trial) requests() (n int) {
	for _, f := range t.families {
		a, _ := t.w.audit.report(f)
		n += a.Requests
	}
	return n
}

// note takes over what a watch saw.
func (t *trial) note(w *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, m := t.report, &w.most
	if u, err := w.peer.use(nil); err == nil { //nolint:staticcheck // nil: without what the peer says
		m.Peak = max(m.Peak, u.Peak)
	}
	r.Most.raise(m)
	r.Asked += w.asked
	r.APIMs, r.MachineMs = max(r.APIMs, milliseconds(w.slowest)), max(r.MachineMs, milliseconds(w.machine))
	if w.slowest > apiWithin {
		t.blame("the control API took %v, %v after the start (bound %v; the machine took up to %v besides)", w.slowest.Round(time.Millisecond), w.slowestAt.Round(100*time.Millisecond), apiWithin, w.machine.Round(time.Millisecond))
	}
	if w.refused > 0 {
		t.blame("%d of %d questions to the control API got no answer", w.refused, w.asked)
	}
	for addr, n := range w.outside {
		t.blame("a connection to %s, which is not of loopback, in %d looks", addr, n)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// back waits until a peer that has nothing to do any more uses no more than before.
func (t *trial) back(ctx context.Context) {
	begun := time.Now()
	p, s := t.peers[0], &t.report.Start
	for {
		u, err := p.use(ctx)
		if err != nil {
			t.blame("after the crawl: %v", err)
			return
		}
		t.report.Back, t.report.BackS = u, time.Since(begun).Seconds()
		var over []string
		for _, c := range []struct {
			what         string
			start, slack int64
			now          int64
			unit         int64
			of           string
		}{
			{"RSS", s.RSS, rssSlack, u.RSS, 1 << 20, " MiB"},
			{"goroutines", int64(s.Goroutines), routineSlack, int64(u.Goroutines), 1, ""},
			{"descriptors", int64(s.Files), filesSlack, int64(u.Files), 1, ""},
			{"disk", s.Disk, diskSlack, u.Disk, 1 << 20, " MiB"},
		} {
			if c.now > c.start+c.slack {
				over = append(over, fmt.Sprintf("%s %d%s, %d%s at the start", c.what, c.now/c.unit, c.of, c.start/c.unit, c.of))
			}
		}
		if len(over) == 0 {
			return
		}
		if time.Since(begun) > backWithin {
			t.blame("not back a minute after the crawl: %s", strings.Join(over, "; "))
			return
		}
		time.Sleep(time.Second)
	}
}

// end interrupts the peer, which has nothing to do.
func (t *trial) end() error {
	d, err := t.peers[0].interrupt(20*time.Second, false)
	t.report.EndS = d.Seconds()
	if err == nil && d > endWithin {
		err = fmt.Errorf("the peer ended %v after Ctrl-C, bound %v", d.Round(10*time.Millisecond), endWithin)
	}
	return err
}

// interrupted ends a peer by Ctrl-C at some moment of its crawl.
func (t *trial) interrupted(ctx context.Context) error {
	f := t.families[0]
	rng := rand.New(rand.NewPCG(t.o.seed, hashOf(f.name)))
	args := append(append([]string{"--until-idle"}, t.scopes()...), t.seeds()...)
	p, err := t.startPeer(ctx, args...)
	if err != nil {
		return err
	}
	after := time.Duration(200+rng.IntN(9800)) * time.Millisecond
	_ = t.crawl(ctx, time.Minute, func(ctx context.Context) error {
		select {
		case <-time.After(after):
		case <-p.Done:
		case <-ctx.Done():
		}
		return nil
	})
	select {
	case <-p.Done:
		t.report.Say("ended before %v", after)
		return nil
	default:
		t.report.Say("interrupted after %v", after)
	}
	return t.end()
}

// together has one peer or a ring crawl all families by `run --until-idle`, as a person would.
func (t *trial) together(ctx context.Context) error {
	within := idleWithin
	if t.o.quick {
		within = quickWithin
	}
	var entry []string
	for range t.trialPlan.peers - 1 {
		p, err := t.startPeer(ctx, entry...)
		if err != nil {
			return err
		}
		if entry == nil {
			addrs, err := p.Addrs(ctx)
			if err != nil {
				return err
			}
			entry = []string{"--bootstrap", addrs[0]}
		}
	}
	args := append(entry, "--until-idle")
	if t.o.quick {
		args = append(args, "--retries", fmt.Sprint(familyRetries))
	}
	p, err := t.startPeer(ctx, append(append(args, t.scopes()...), t.seeds()...)...)
	if err != nil {
		return err
	}
	t.report.Start, _ = p.use(ctx)
	if err := t.crawl(ctx, within, func(ctx context.Context) error {
		select {
		case <-p.Done:
			if p.Err != nil {
				return p.Ended()
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}); err != nil {
		t.blame("%v", err)
	}
	t.judge(ctx)
	return t.endRing()
}

// endRing has the others, which would hand their records over, end at once by a second Ctrl-C.
func (t *trial) endRing() error {
	var group sync.WaitGroup
	errs := make([]error, len(t.peers))
	for i, p := range t.peers {
		group.Go(func() {
			var d time.Duration
			d, errs[i] = p.interrupt(20*time.Second, len(t.peers) > 1)
			if errs[i] == nil && d > endWithin {
				errs[i] = fmt.Errorf("peer %d ended %v after Ctrl-C, bound %v", i+1, d.Round(10*time.Millisecond), endWithin)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
