package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// The pages that are drawn: a quarter each never changes and changes with these rates per day.
const (
	drawnHosts, drawnPages, drawnDays = 8, 24, 60
	members                           = 4
)

var drawnRates = []float64{0, 0.05, 0.25, 1.5}

// draw writes a file of changes of Poisson processes.
func (t *trial) draw() string {
	rng := rand.New(rand.NewPCG(t.seed, 0))
	var text bytes.Buffer
	text.WriteString("page,host,unix_s\n")
	const start = 1_700_000_000
	for h := range drawnHosts {
		for n := range drawnPages {
			at, rate := 0., drawnRates[(n+h)%len(drawnRates)]
			for at < drawnDays {
				fmt.Fprintf(&text, "page%d,host%d,%d\n", n, h, start+int64(at*daySeconds))
				if rate == 0 {
					break
				}
				at += rng.ExpFloat64() / rate
			}
		}
	}
	file := filepath.Join(t.dir, "changes.csv")
	harness.Check(os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// ring crawls the pages with a ring of four, one of which is killed, and judges the visits.
func (t *trial) ring(ctx context.Context) {
	file := t.options.changes
	if file == "" {
		file = t.draw()
	}
	t.start(ctx, members)
	t.serve(ctx, file, daySeconds/t.day.Seconds(), 0.5)
	total := 0
	for _, h := range t.changes {
		total += len(h) + 1
	}
	seeds := t.web.Seeds(t.port)
	list := filepath.Join(t.dir, "seeds")
	harness.Check(os.WriteFile(list, []byte(strings.Join(seeds, "\n")), 0o600))
	budget := fmt.Sprintf("%.0f/day", float64(total)/t.every)
	harness.Must(harness.Apoidea(ctx, "crawl", "--data-dir", t.peers[0].Dir, "--seeds", list, "--scope", fmt.Sprintf("*.web.localhost:%d", t.port), "--refresh", budget, "--wait"))
	begun := time.Now()
	say("%d pages of %d hosts, --refresh %s, a day in %v: first crawl done", total, len(t.changes), budget, t.day)

	harness.Check(harness.Sleep(ctx, time.Duration(t.seconds)*time.Second/2))
	victim, owned, leased := t.victim(ctx)
	t.peers[victim].Kill()
	killed := time.Now()
	say("after %.0f s: killed p%d, which owned %d hosts and fetched from %d", killed.Sub(begun).Seconds(), victim, owned, leased)
	harness.Check(harness.Sleep(ctx, time.Until(begun.Add(time.Duration(t.seconds)*time.Second))))

	audit := t.audit(ctx)
	now := t.read()
	t.judgeWhy(ctx, now)
	t.judgeKill(ctx, now, killed)
	urls := export(ctx, "urls", "--ring", "--data-dir", t.peers[0].Dir)
	t.leave()
	pages, changes := t.read(), t.changesFound(ctx) // after the last visit

	t.judgePoliteness(audit)
	t.judgeBudget(pages, begun, float64(total)/t.every)
	t.judgeLost(pages, urls, total)
	t.judgeConditions(pages)
	t.judgeArchive(pages, changes, killed)
	t.judgeFreshness(pages)
}

// victim returns the peer with most hosts that is not the first, preferably one that fetches too,
// and the numbers of hosts that it owns and that it fetches from.
func (t *trial) victim(ctx context.Context) (victim, owned, leased int) {
	owns, works := make(map[string]int), make(map[string]int)
	harness.Check(t.peers[0].Client.Hosts(ctx, true, func(h control.HostLine) error {
		owns[h.Owner]++
		works[h.PlacedAt]++
		return nil
	}))
	most := -1
	for i, p := range t.peers[1:] {
		s := harness.Must(p.Client.Status(ctx, false))
		if o, w := owns[s.Peer], works[s.Peer]; o*(w+1) > most {
			most, victim, owned, leased = o*(w+1), i+1, o, w
		}
	}
	return victim, owned, leased
}

func (t *trial) audit(ctx context.Context) (a webgen.Audit) {
	req := harness.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.addr()+webgen.AuditPath, nil))
	res, err := http.DefaultClient.Do(req)
	harness.Check(err)
	defer res.Body.Close()
	harness.Check(json.NewDecoder(res.Body).Decode(&a))
	return a
}

// change is a line of export changes.
type change struct {
	URL, Change string
	At          time.Time
}

// changesFound returns the visits of the archives of all peers, that of the killed one included.
func (t *trial) changesFound(ctx context.Context) (all []change) {
	for _, p := range t.peers {
		for dec := json.NewDecoder(bytes.NewReader(export(ctx, "changes", "--all", "--data-dir", p.Dir))); ; {
			var c change
			err := dec.Decode(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			harness.Check(err)
			all = append(all, c)
		}
	}
	return all
}

// gapSlack is how much earlier than the delay a request may seem to be: the worker counts from the
// end of the response as it receives it.
const gapSlack = 5 * time.Millisecond

func (t *trial) judgePoliteness(a webgen.Audit) {
	least := float64((delay - gapSlack).Milliseconds())
	gap := func(ms *float64) float64 {
		if ms == nil {
			return delay.Seconds() * 1000
		}
		return *ms
	}
	across, within := gap(a.Totals.SmallestGapMS), gap(a.Totals.SmallestGapWithinMS)
	t.check(across >= least && within >= least && a.Totals.Overlaps+a.Totals.SelfOverlaps == 0,
		"smallest gap %.0f ms, %.0f ms across peers, delay %v; %d overlaps", within, across, delay, a.Totals.Overlaps+a.Totals.SelfOverlaps)
	t.check(a.Totals.RobotsViolations == 0, "%d requests against robots.txt, which was read %d times", a.Totals.RobotsViolations, a.Totals.RobotsRequests)
	say("%d requests of %d pages: %v", a.Totals.Requests, a.Totals.DistinctURLs, a.Totals.Statuses)
}

// judgeBudget compares the visits after the first crawl with the budget, by fifths of the time.
func (t *trial) judgeBudget(pages []*page, begun time.Time, perDay float64) {
	const parts = 5
	var counts [parts]float64
	length := time.Duration(t.seconds) * time.Second / parts
	for _, p := range pages {
		for i := range p.visits {
			if v := &p.visits[i]; v.held >= 0 && v.At.After(begun) {
				counts[min(int(v.At.Sub(begun)/length), parts-1)]++
			}
		}
	}
	sum, text := 0., ""
	for _, n := range counts {
		sum += n
		text += fmt.Sprintf(" %.2f", n/(perDay*length.Seconds()/t.day.Seconds()))
	}
	share := sum / (perDay * float64(t.seconds) / t.day.Seconds())
	t.check(share > 0.7 && share < 1.15, "%.0f visits, %.2f of the budget; by fifths of the time%s", sum, share, text)
}

// judgeLost checks that every page has an outcome.
func (t *trial) judgeLost(pages []*page, urls []byte, total int) {
	outcomes := make(map[string]int)
	lost := ""
	harness.Check(harness.Records(bytes.NewReader(urls), func(u *control.URLLine) {
		if u.Kind != "page" {
			return
		}
		if outcomes[u.Outcome]++; u.Outcome != "ok" && u.Outcome != "duplicate" && u.Outcome != "robots_denied" {
			lost = fmt.Sprintf(", such as %s: %s %s", u.URL, u.Outcome, u.Detail)
		}
	}))
	kept := outcomes["ok"] + outcomes["duplicate"]
	t.check(kept == len(pages) && lost == "" && kept+outcomes["robots_denied"] == total, "%d of %d pages kept, %d denied by robots.txt%s", kept, total, outcomes["robots_denied"], lost)
}

// judgeKill checks that every page was visited after the kill, or is scheduled within the longest
// time between two visits.
func (t *trial) judgeKill(ctx context.Context, pages []*page, killed time.Time) {
	longest := time.Duration(fresh.Floor * t.every * float64(t.day))
	last, waiting, lost := time.Duration(0), 0, ""
	for _, p := range pages {
		if i := slices.IndexFunc(p.visits, func(v visit) bool { return v.At.After(killed) }); i >= 0 {
			last = max(last, p.visits[i].At.Sub(killed))
			continue
		}
		waiting++
		w, at := harness.Must(t.peers[0].Client.Why(ctx, p.url)), p.visits[len(p.visits)-1].At
		switch {
		case len(w.Jobs) == 0 || w.Jobs[0].Again == nil || w.Jobs[0].Again.Next == nil:
			lost = fmt.Sprintf("; %s has no schedule: %+v", p.url, *w)
		case time.Since(at) > longest+takeOver || w.Jobs[0].Again.Next.Sub(at) > longest+takeOver:
			a := w.Jobs[0].Again
			lost = fmt.Sprintf("; %s (%s, on %s): visit %d was %.0f s before the kill, the next is due %.0f s after it: %s",
				p.url, p.habit, w.Owner, a.Visits, killed.Sub(at).Seconds(), a.Next.Sub(killed).Seconds(), a.Text)
		}
	}
	t.check(lost == "",
		"%d pages were visited after the kill, the last after %.0f s; %d are due within %v of the last visit%s", len(pages)-waiting, last.Seconds(), waiting, longest, lost)
}

// takeOver bounds the time until the hosts of the killed peer are visited again.
const takeOver = 15 * time.Second

// control visits of a host: the first, and each that is so many visits after the last.
const (
	firstControls = 3
	controlEvery  = 95
)

// judgeConditions checks what unchanged pages cost, and that lies are found.
func (t *trial) judgeConditions(pages []*page) {
	type stop struct {
		*visit
		p *page
	}
	byHost := make(map[string][]stop)
	liars, changedLiars, found, believed := 0, 0, 0, 0
	for _, p := range pages {
		known := false
		for i := range p.visits {
			v := &p.visits[i]
			if v.held >= 0 && !(p.habit == "lies" && known) {
				byHost[p.host] = append(byHost[p.host], stop{v, p})
			}
			if p.habit == "lies" {
				if known && v.Conditional {
					believed++
				}
				known = known || v.held >= 0 && !v.Conditional && v.Version != v.held
			}
		}
		if p.habit == "lies" {
			liars++
			if p.rate(p.first(), p.visits[len(p.visits)-1].day) > 0 {
				changedLiars++
			}
			if known {
				found++
			}
		}
	}
	unchanged, cheap, controls, plain, unasked := 0, 0, 0, 0, 0
	for _, list := range byHost {
		slices.SortFunc(list, func(a, b stop) int { return a.At.Compare(b.At) })
		first, since := 0, controlEvery
		for _, s := range list {
			since++
			control := false
			if !s.Conditional && (first < firstControls || since >= controlEvery) {
				first, since, control = first+1, 0, true
			}
			switch {
			case s.p.habit != "honest" && s.p.habit != "unasked" || s.Version != s.held:
			case control:
				controls++
			default:
				if unchanged++; s.Status == http.StatusNotModified && s.Conditional {
					cheap++
				} else if plain++; s.Status == http.StatusNotModified {
					unasked++
				}
			}
		}
	}
	share := float64(cheap) / float64(max(unchanged, 1))
	t.check(share >= 0.98, "%.4f of %d visits to unchanged pages with honest validators cost a 304 (goal 0.98); %d control requests beside them; %d others, of which %d were answered by 304", share, unchanged, controls, plain, unasked)
	// A control request may meet none that has changed, so their number has no bound.
	t.check(believed == 0, "%d of %d pages with lying validators found out (%d changed); %d conditional requests after that", found, liars, changedLiars, believed)
}

// judgeArchive compares export changes with the log: the version that each 200 brought.
func (t *trial) judgeArchive(pages []*page, found []change, killed time.Time) {
	type of struct{ url, change string }
	have := make(map[of]int)
	for _, c := range found {
		have[of{c.URL, c.Change}]++
	}
	texts, listed, missing, wrong, modified, extra, storedUnasked, unasked := 0, 0, 0, 0, 0, 0, 0, 0
	example := ""
	for _, p := range pages {
		changed, late, asked := 0, 0, 0
		for i := range p.visits {
			switch v := &p.visits[i]; {
			case v.held >= 0 && v.Status == http.StatusOK && v.Version != v.held:
				changed++
				if since := killed.Sub(v.At); since > 0 && since < inFlight {
					late++
				}
			case v.Status == http.StatusNotModified && v.Conditional:
				asked++
			case v.Status == http.StatusNotModified:
				unasked++
			}
		}
		n := have[of{p.url, "text"}]
		texts, listed = texts+changed, listed+n
		if n > changed {
			wrong += n - changed
			example = p.url
		}
		missing += max(changed-late-n, 0)
		if changed-late > n {
			example = p.url
		}
		modified += asked
		extra += max(have[of{p.url, "not-modified"}]-asked, 0)
		if p.habit == "unasked" {
			storedUnasked += max(have[of{p.url, "not-modified"}]-asked, 0)
		}
		if n := have[of{p.url, "body"}]; p.habit != "nonce" && n > 0 {
			wrong += n
			example = p.url
		}
	}
	t.check(wrong == 0 && missing == 0, "%d changes fetched, %d listed by export changes; %d missing, %d wrong %s", texts, listed, missing, wrong, example)
	t.check(storedUnasked == 0 && extra == 0, "%d of %d 304 without a condition stored; %d 304 with one", storedUnasked+extra, unasked, modified)
}

// inFlight is the time before a kill in which records may not have reached the archive.
const inFlight = 10 * time.Second

// judgeFreshness compares the visits with as many that are spread evenly.
func (t *trial) judgeFreshness(pages []*page) {
	from, to := 0., 0.
	for _, p := range pages {
		from, to = max(from, p.first()), max(to, p.visits[len(p.visits)-1].day)
	}
	begin := from
	from += (to - from) / 4
	var ours []*page
	var ages []float64
	visits := 0
	for _, p := range pages {
		for i := range p.visits {
			if v := &p.visits[i]; v.held >= 0 && v.Status == http.StatusOK && v.Version > v.held {
				ages = append(ages, (v.day-p.changes[v.held])*t.day.Seconds())
			}
		}
		if p.habit == "honest" || p.habit == "nonce" {
			ours = append(ours, p)
			visits += len(p.visits) - 1
		}
	}
	slices.Sort(ages)
	if n := len(ages); n > 0 {
		say("age of changes when fetched: median %.1f s, 95 %% %.1f s, most %.1f s (a day is %v)", ages[n/2], ages[n*95/100], ages[n-1], t.day)
	}
	// Uniform visits, averaged over phases.
	const phases = 32
	every := (to - begin) * float64(len(ours)) / float64(max(visits, 1))
	fresh, even := 0., 0.
	for i, p := range ours {
		fresh += p.current(p.fetches(), from, to)
		for k := range phases {
			phase := (float64(k) + float64(i%7)/7) / phases
			even += p.current(p.uniform(every, phase, to), from, to) / phases
		}
	}
	span := (to - from) * float64(len(ours))
	t.check(fresh >= even, "freshness %.4f, uniform with as many requests %.4f (%d visits of %d honest pages in %.1f days; last three quarters)", fresh/span, even/span, visits, len(ours), to-begin)

	slices.SortStableFunc(ours, func(a, b *page) int { return a.rate(begin, to) - b.rate(begin, to) })
	mean := func(list []*page) (visits, changes float64) {
		for _, p := range list {
			visits += float64(len(p.visits)-1) / float64(max(len(list), 1))
			changes += float64(p.rate(begin, to)) / float64(max(len(list), 1))
		}
		return visits, changes
	}
	still := ours[:max(slices.IndexFunc(ours, func(p *page) bool { return p.rate(begin, to) > 0 }), 0)]
	a, _ := mean(still)
	b, rate := mean(ours[len(ours)*3/4:])
	t.check(b > 1.25*a, "%.1f visits of pages that change often (%.1f changes), %.1f of the %d that never do", b, rate, a, len(still))
}

// judgeWhy asks for a page of ten visits.
func (t *trial) judgeWhy(ctx context.Context, pages []*page) {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.habit == "honest" && len(p.visits) > 11 && len(p.changes) > 0 })
	if i < 0 {
		t.check(false, "no page has ten visits")
		return
	}
	w := harness.Must(t.peers[0].Client.Why(ctx, pages[i].url))
	if len(w.Jobs) == 0 || w.Jobs[0].Again == nil {
		t.check(false, "why %s: %+v", pages[i].url, *w)
		return
	}
	a := w.Jobs[0].Again
	t.check(a.Visits >= 10 && a.Rate > 0 && a.Next != nil, "why %s: %d visits, %d changes, %.2f changes a day expected, next visit: %s", pages[i].url, a.Visits, a.Changes, a.Rate, a.Text)
}
