package visits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

const (
	delay = time.Second // between two requests to a host
	most  = 6           // visits at once

	domainDelay = 1500 * time.Millisecond // between two requests to the hosts of a domain, if there is one
)

// domainOf has the hosts of odd numbers be of one domain.
func domainOf(host string) string { return fmt.Sprint("domain ", host[1]%2) }

var theJob = &reports.Job{ID: job.ID{1}}

// bench drives a machine with made-up owners, sites and time.
type bench struct {
	*Machine
	t     *testing.T
	rnd   *rand.Rand
	now   time.Time
	epoch uint64
	urls  int

	hashes map[uint64]string         // URLs
	under  map[string]*session.Lease // whose window took a URL; gone once that has ended
	ended  map[string]int            // how often
	last   map[string]time.Time      // the end of the last request to a host
	guest  map[string]time.Time      // the end of the last one for the sake of another
	bar    map[string]time.Time      // of the owner, who knows of requests under its lease
	busy   map[string]bool           // it has a request under way
	wallet *permit.Wallet            // may be nil
	open   []*turn
	pages  []*turn
	asked  map[string]time.Time // origins whose robots.txt came
	done   [4]int               // URLs told and given back; requests, and those of them for robots.txt
}

// turn is a visit with its request under way, or the page that came of it.
type turn struct {
	*Visit
	lease  *session.Lease
	item   reports.Item
	host   string // that is asked
	begun  time.Time
	broken error
}

func newBench(t *testing.T, seed uint64) *bench {
	b := &bench{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), // a test
		hashes: make(map[uint64]string), under: make(map[string]*session.Lease), ended: make(map[string]int), last: make(map[string]time.Time), bar: make(map[string]time.Time), guest: make(map[string]time.Time), busy: make(map[string]bool), asked: make(map[string]time.Time),
	}
	cfg := Config{
		Sessions: session.DefaultConfig(), Politeness: frontier.Config{Delay: delay, Factor: -1, PerIP: -1, IPDelay: -1}, Agent: "bee", Known: reports.NewKnown(64),
		Fetchers: most, MaxInFlight: 20, MaxDepth: 8, MaxWindowBytes: 2000, Estimates: bandwidth.NewEstimates(bandwidth.EstimatesConfig{}),
	}
	cfg.Sessions.Incarnation = 1
	if seed%5 < 3 {
		cfg.Politeness.Group = domainOf
		cfg.Politeness.GroupDelay = domainDelay
	}
	if seed%3 == 0 {
		b.wallet = permit.NewWallet(4, 10*time.Second, domainDelay)
		cfg.Permits = b.wallet
	}
	b.Machine = New(cfg, b)
	if seed%4 == 0 {
		if err := b.Cap(1<<20, bandwidth.Ours); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) Wake(*session.Session) {}

func (b *bench) Job(job.ID) *reports.Job { return theJob }

func (b *bench) Acknowledged(*session.Report) {}

// clock is the lease clock.
func (b *bench) clock() time.Duration { return b.now.Sub(time.Unix(1e9, 0)) }

// chance says yes once in n times.
func (b *bench) chance(n int) bool { return b.rnd.IntN(n) == 0 }

// end notes what became of a URL that was taken.
func (b *bench) end(url string, how int) {
	if b.ended[url]++; b.ended[url] > 1 {
		b.t.Errorf("%s ended %d times", url, b.ended[url])
	}
	delete(b.under, url)
	b.done[how]++
}

// speak has an owner answer, as it likes, what is said to it.
func (b *bench) speak(s *session.Session) {
	if s.Over() {
		b.Sessions().End(s)
		return
	}
	news := b.News()
	m := b.Sessions().Turn(b.now, s, s.Begin(), news.Add)
	for _, r := range m.Reports {
		if url := string(r.Fetched.GetUrl()); link.Outcome(r.Fetched.GetOutcome()) != link.OutcomeNone && b.ended[url] != 1 {
			b.t.Errorf("%s is told and ended %d times", url, b.ended[url])
		}
	}
	reply := new(wire.SessionReply)
	for _, w := range m.Message.GetHosts() {
		for _, u := range w.GetReturned() {
			b.end(b.hashes[u.GetHash()], 1)
		}
		if b.chance(20) {
			reply.Revoked = append(reply.Revoked, w.GetHost())
		} else if w.GetWant() > 0 {
			reply.Grants = append(reply.Grants, b.grant(w))
		}
	}
	news.Stored(reply)
	b.Sessions().Answered(b.now, s, m, reply, b.clock(), nil)
	for _, g := range reply.GetGrants() {
		for _, url := range g.GetUrl() {
			b.under[string(url)] = b.Sessions().Lease(g.GetHost())
		}
	}
}

// grant answers the wish for URLs of a host.
func (b *bench) grant(w *wire.HostWork) *wire.Grant {
	g := &wire.Grant{Host: w.GetHost(), Epoch: w.GetEpoch(), JobIds: [][]byte{theJob.ID[:]}, More: true, GiveBack: b.chance(10)}
	if g.Epoch == nil {
		b.epoch++
		g.Epoch = &wire.Epoch{Counter: b.epoch, Peer: []byte("owner")}
		g.NotBeforeMs = session.OwnerMilliseconds(b.bar[w.GetHost()].Sub(b.now))
		g.Addrs = [][]byte{{192, 0, 2, byte(b.rnd.IntN(3))}}
	}
	for range b.rnd.IntN(5) {
		b.urls++
		url := fmt.Sprintf("http://%s/%d", w.GetHost(), b.urls)
		b.hashes[link.Hash(theJob.ID, url)] = url
		g.Url = append(g.Url, []byte(url))
	}
	return g
}

// look begins the visits that are due.
func (b *bench) look() {
	for !b.Laden() {
		v, due := b.Next(b.now)
		if v == nil {
			if due.Before(b.now) && !due.IsZero() {
				b.t.Errorf("to be asked again %v ago", b.now.Sub(due))
			}
			return
		}
		if l := v.Lease; !l.Granted() || l.Over() || l.Closing() || b.Sessions().Lease(l.Host) != l {
			b.t.Errorf("a visit of %s without a lease", l.Host)
		}
		b.visit(v)
	}
}

func (b *bench) visit(v *Visit) {
	step, result := v.Plan(b.now)
	if step == Read {
		if err := v.Read(b.reading); err != nil {
			b.over(&turn{Visit: v, lease: v.Lease, item: v.Item}, Failed{Err: err})
			return
		}
		b.Keep(v)
		step, result = v.Plan(b.now)
	}
	t := &turn{Visit: v, lease: v.Lease, item: v.Item, host: v.Lease.Host, begun: b.now}
	url := v.Item.URL
	switch step {
	case Ask:
		q := v.Question()
		if q.Across {
			owed, again := b.Depart(b.now, v)
			if !again.IsZero() {
				b.over(t, v.Defer(b.now, again))
				return
			}
			t.begun = b.now.Add(owed)
		}
		url = q.URL
		t.host = link.Host(url)
	case Fetch:
		if b.asked[link.Origin(url)].IsZero() {
			b.t.Errorf("%s is fetched before its robots.txt is known", url)
		}
	default:
		b.over(t, result)
		return
	}
	err := b.Begin(b.now, v, &fetch.Request{URL: url}, func(why error) { t.broken = why })
	if err == nil {
		err = v.Permit(b.clock())
	}
	if err == nil && b.cfg.Permits != nil {
		err = v.Spend(b.now, netip.MustParseAddr("192.0.2.1"))
	}
	if err != nil {
		b.over(t, b.failed(t, Failed{Err: err}))
		return
	}
	last := b.last[t.host]
	if b.Sessions().Lease(t.host) == nil {
		last = b.guest[t.host] // what it is owed from before is known to its owner alone
	}
	if b.busy[t.host] || t.begun.Before(last.Add(delay)) {
		b.t.Errorf("%s is asked for from %s, %v after the last, busy %v", url, t.lease.Host, t.begun.Sub(last), b.busy[t.host])
	}
	if b.cfg.Politeness.GroupDelay > 0 {
		domain := domainOf(t.host)
		if last := b.last[domain]; b.busy[domain] || t.begun.Before(last.Add(domainDelay)) {
			b.t.Errorf("%s is asked for from %s, %v after the last of its domain, busy %v", url, t.lease.Host, t.begun.Sub(last), b.busy[domain])
		}
		b.busy[domain] = true
	}
	b.busy[t.host] = true
	b.open = append(b.open, t)
	if b.done[2]++; step == Ask {
		b.done[3]++
	}
	if len(b.open) > most {
		b.t.Errorf("%d visits at once", len(b.open))
	}
}

func (b *bench) reading(_ int, read func()) error {
	if b.chance(20) {
		return context.Canceled
	}
	read()
	return nil
}

func (b *bench) failed(t *turn, f Failed) Result {
	if t.question != nil {
		return t.Unasked(b.now, f)
	}
	return f
}

// over ends a visit without a page.
func (b *bench) over(t *turn, r Result) {
	if out := b.Ended(b.now, t.Visit, r); out != nil {
		b.end(string(out.Fetched.GetUrl()), 0)
	}
}

// answer ends a request: with a page, a robots.txt, a redirect of it, an error or nothing.
func (b *bench) answer(t *turn) {
	took := b.now.Sub(t.begun)
	last := []time.Time{b.last[t.host], b.last[domainOf(t.host)]}
	for _, what := range []string{t.host, domainOf(t.host)} {
		b.busy[what] = false
		b.last[what] = b.now
	}
	if t.host == t.lease.Host {
		b.bar[t.host] = b.now.Add(delay)
	} else {
		b.guest[t.host] = b.now
	}
	resp := &fetch.Response{URL: t.item.URL, Status: http.StatusOK, Header: make(http.Header), Addr: netip.MustParseAddrPort("192.0.2.1:80")}
	failure := []error{
		fetch.ErrStale,
		&fetch.Error{Outcome: link.OutcomeConnect, Phase: fetch.PhaseConnect, Err: errors.New("refused")},
		&fetch.Error{Outcome: link.OutcomeHTTPError, Phase: fetch.PhaseBody, Err: errors.New("cut")},
		ErrNoPermit,
	}[b.rnd.IntN(4)]
	switch f := (Failed{Err: failure, Took: took}); {
	case t.broken != nil:
		b.over(t, b.failed(t, Failed{Err: t.broken, Took: took}))
	case !t.lease.Holds(b.clock()) || b.chance(8):
		if lacks := errors.Is(failure, ErrNoPermit); lacks && b.cfg.Permits == nil {
			f.Err = context.Canceled
		} else if lacks {
			t.lacks = netip.MustParseAddr("192.0.2.9")
			b.last[t.host], b.last[domainOf(t.host)] = last[0], last[1] // there was no request
		}
		b.over(t, b.failed(t, f))
	case t.question != nil:
		b.asked[t.origin.name] = b.now
		switch b.rnd.IntN(8) {
		case 0:
			resp.Status = http.StatusServiceUnavailable
		case 1:
			resp.Status = http.StatusFound
			resp.Header.Set("Location", fmt.Sprintf("http://h%d.example/robots.txt", b.rnd.IntN(6)))
		case 2:
			resp.Status = http.StatusNotFound
		default:
			resp.Body = []byte("User-agent: *\nDisallow: /*5\nSitemap: http://h1.example/map.xml\n")
		}
		b.over(t, t.Learn(b.now, resp, took, b.reading))
	default:
		if b.chance(10) {
			resp.Status = http.StatusTooManyRequests
		}
		b.pages = append(b.pages, t)
		b.Fetched(b.now, t.Visit, resp, took, t.Pause(resp.Status, resp.Header, b.now))
	}
}

// pick takes one of a list at random.
func pick(rnd *rand.Rand, list *[]*turn) *turn {
	i := rnd.IntN(len(*list))
	t := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return t
}

// step lets something happen.
func (b *bench) step() {
	b.now = b.now.Add(time.Duration(b.rnd.IntN(400)) * time.Millisecond)
	switch n := b.rnd.IntN(20); {
	case n < 2:
		b.Sessions().Offer(b.now, "owner", []string{fmt.Sprintf("h%d.example", b.rnd.IntN(6))})
	case n < 8 && len(b.open) > 0:
		b.answer(pick(b.rnd, &b.open))
	case n < 12 && len(b.pages) > 0:
		p := pick(b.rnd, &b.pages)
		b.end(p.item.URL, 0)
		b.Processed(b.now, reports.New(p.lease, &p.item, link.OutcomeOK))
	case n == 12 && b.chance(10):
		b.now = b.now.Add(10 * time.Second) // nothing is renewed
	case n == 13 && b.chance(10):
		b.Sessions().CloseAll(b.now)
		b.BreakOff()
	case n == 14:
		b.LetGo(b.now, b.chance(10))
	case n == 15:
		b.Allow(1 + b.rnd.IntN(most))
	default:
		for _, s := range slices.Clone(b.Sessions().Sessions()) {
			b.speak(s)
		}
	}
	if b.wallet != nil {
		for _, q := range b.wallet.Asks(b.now) {
			b.wallet.Granted(b.now, q.Key, b.rnd.IntN(4), 5*time.Second)
		}
	}
	b.Lapse(b.now, b.clock())
	b.look()
}

// check holds the machine's parts against each other, and the URLs against what holds them.
func (b *bench) check() error {
	var bytes int64
	states, made, queued, running := 0, 0, 0, 0
	for _, h := range b.hosts {
		bytes += h.window
		queued += b.frontier.Len(h.Host)
		for _, o := range h.origins {
			states += o.counted
			if o.place != nil {
				made += o.place.Value.(*madeRules).rules.Size()
			}
		}
		if h.visit != nil {
			running++
		}
	}
	if w, s, m := b.Weight(); w != bytes || s != states || m != made {
		return fmt.Errorf("%d, %d and %d bytes are counted, %d, %d and %d are held", w, s, m, bytes, states, made)
	}
	if _, r, p := b.Load(); r != len(b.open) || r < running || p != len(b.pages) || b.frontier.Items() != queued {
		return fmt.Errorf("%d visits, %d pages and %d URLs are counted; %d, %d and %d there are", r, p, b.frontier.Items(), len(b.open), len(b.pages), queued)
	}
	if len(b.leaving)+running > len(b.open) || len(b.chooser.visits) > len(b.open) {
		return fmt.Errorf("%d visits, and %d governed, of %d", len(b.leaving)+running, len(b.chooser.visits), len(b.open))
	}
	if queues := b.frontier.Hosts(); queues > b.Sessions().Leases()+2*len(b.open)+len(b.held) { // a visit may be at another host
		return fmt.Errorf("%d hosts have a queue, of %d with a lease", queues, b.Sessions().Leases())
	}
	return b.checkURLs()
}

// checkURLs says whether each URL of a lease is in one place: it waits, is visited or worked on, or
// is about to be given back; or it has ended.
func (b *bench) checkURLs() error {
	places := make(map[*session.Lease]int)
	for _, l := range b.under {
		places[l]++
	}
	for _, t := range append(slices.Clone(b.open), b.pages...) {
		places[t.lease]--
	}
	for l, n := range places {
		if left := b.frontier.Len(l.Host); !l.Over() && n != left+l.Returned() {
			return fmt.Errorf("%s: %d URLs neither ended nor in hand; %d wait, %d are to be given back", l.Host, n, left, l.Returned())
		}
	}
	return nil
}

// TestAnything: whatever owners, sites and the clock do, a host is asked one thing at a time, under
// a lease that holds, after its rest and its domain's, and by its robots.txt; and every URL of a
// window ends once.
func TestAnything(t *testing.T) {
	var done [4]int
	for seed := range uint64(100) {
		b := newBench(t, seed)
		for step := range 600 {
			b.step()
			if err := b.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		for i, n := range b.done {
			done[i] += n
		}
	}
	t.Logf("%d URLs told, %d given back; %d requests, %d of them for robots.txt", done[0], done[1], done[2], done[3])
}
