package owner_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/crawl/wire"
)

// crew are workers of one owner, which fetch everything that they are granted at once.
type crew struct {
	*scene
	page     func(worker, url string, visit int) string // the body that a worker reports
	fetched  map[string]int                             // requests by URL
	places   []owner.Place
	next     func(p owner.Place) string // chooses a worker
	requests int
	waiting  []owner.Place // not placed yet
	offers   []owner.Offer
	by       map[string]*wire.Certificate // of the last lease of each worker
}

func (c *crew) keep(r owner.Ready) {
	c.waiting, c.offers = append(c.waiting, r.Places...), append(c.offers, r.Offers...)
}

func newCrew(t *testing.T, rate float64, workers ...string) *crew {
	c := &crew{by: make(map[string]*wire.Certificate), fetched: make(map[string]int)}
	c.scene = newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) {
		cfg.CheckRate = rate
		cfg.Random = func() float64 { return 0.5 }
		signs(cfg)
	})
	c.page = func(_, url string, _ int) string { return "the page " + url }
	c.next = func(p owner.Place) string {
		for _, w := range workers {
			if !slices.Contains(p.Exclude, w) {
				return w
			}
		}
		return ""
	}
	return c
}

// work lets the workers work until nothing is left, or for some rounds.
func (c *crew) work(rounds int) {
	c.keep(c.do(nil))
	for range rounds {
		for len(c.waiting) > 0 {
			p := c.waiting[0]
			c.waiting, c.places = c.waiting[1:], append(c.places, p)
			c.keep(c.do(func(o *owner.Owner) { o.Placed(p.Host, owner.Placement{Worker: c.next(p), Why: "test"}) }))
		}
		for len(c.offers) > 0 {
			offer := c.offers[0]
			c.offers = c.offers[1:]
			for _, host := range offer.Hosts {
				c.take(offer.Worker, host)
			}
		}
		if n := c.owner.Counts(c.id); n.Outstanding() == 0 {
			return
		}
		c.keep(c.wait(700 * time.Millisecond))
	}
}

// take is the lease of a worker on a host, until it has nothing more.
func (c *crew) take(worker, host string) {
	reply, ready := c.say(worker, &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
	c.keep(ready)
	for len(reply.GetGrants()) == 1 {
		g := reply.GetGrants()[0]
		if len(g.GetSignature()) > 0 {
			c.by[worker] = &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
		}
		w := &wire.HostWork{Host: host, Epoch: g.GetEpoch(), Want: 4}
		for _, url := range g.GetUrl() {
			c.fetched[string(url)]++
			c.requests++
			f := c.got(string(url), link.OutcomeOK)
			f.FetchedMs += int64(c.requests)
			body := c.page(worker, string(url), c.fetched[string(url)])
			sum := sha256.Sum256([]byte(body))
			f.Digest = sum[:]
			w.Fetched = append(w.Fetched, f)
		}
		if g.GetGiveBack() || len(g.GetUrl()) == 0 {
			w.Release, w.Want = true, 0
		}
		c.now = c.now.Add(time.Millisecond)
		reply, ready = c.say(worker, &wire.Session{Hosts: []*wire.HostWork{w}})
		c.keep(ready)
	}
}

// forged returns the number of pages whose outcome is not the true one.
func (c *crew) forged() (n int) {
	for _, f := range c.final() {
		if sum := sha256.Sum256([]byte("the page " + f.URL)); f.Outcome != link.OutcomeOK || string(f.Digest) != string(sum[:]) {
			n++
		}
	}
	return n
}

func (c *crew) final() (list []owner.Final) {
	for url := range maps.Keys(c.fetched) {
		if f := c.fate(url); f.State == "done" {
			list = append(list, f.Final)
		}
	}
	return list
}

// TestFirstPagesAreChecked: the first pages of a worker are fetched again by another one, in a
// lease of their own, and no more than these.
func TestFirstPagesAreChecked(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2")
	c.keep(c.post(0, pages("a.example", 30)...))
	c.work(100)
	if n := c.owner.Counts(c.id); n.Done != 30 || n.Outstanding() != 0 || c.forged() != 0 {
		t.Fatalf("%+v, %d forged", n, c.forged())
	}
	if w := c.owner.Workers()["w1"]; w.Pages != 30 || w.Checked != trust.First || w.Agreed != trust.First || w.Lost+w.Unclear != 0 {
		t.Errorf("w1: %+v", w)
	}
	if c.requests != 30+trust.First {
		t.Errorf("%d requests", c.requests)
	}
	checks := 0
	for _, p := range c.places {
		if p.Check {
			checks++
			if !slices.Equal(p.Exclude, []string{"w1"}) {
				t.Errorf("a check excludes %v", p.Exclude)
			}
		}
	}
	if checks == 0 || checks > 3 {
		t.Errorf("%d leases for checks", checks)
	}
}

// TestLiarLosesItsPages: a worker that forges a page loses its leases, and all its pages are
// fetched again by others; it starts anew with more checks.
func TestLiarLosesItsPages(t *testing.T) {
	for _, with := range []string{"self", "w3"} { // the third opinion
		c := newCrew(t, 0.02, "w1", "w2", with)
		c.page = func(worker, url string, _ int) string {
			if worker == "w1" && strings.HasSuffix(url, "7") {
				return "a lie"
			}
			return "the page " + url
		}
		c.keep(c.post(0, pages("a.example", 60)...))
		c.work(200)
		if n := c.owner.Counts(c.id); n.Done != 60 || n.Outstanding() != 0 || n.Checks != 0 {
			t.Fatalf("third %s: %+v", with, n)
		}
		if w := c.owner.Workers()["w1"]; w.Lost == 0 {
			t.Errorf("third %s: w1: %+v", with, w)
		}
		if w := c.owner.Workers()["w2"]; w.Lost != 0 {
			t.Errorf("third %s: w2: %+v", with, w)
		}
	}
}

// TestFalseWitness: a checker that contradicts the others has lost, not the worker that it checks.
func TestFalseWitness(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2", "self")
	c.page = func(worker, url string, _ int) string {
		if worker == "w2" {
			return "slander"
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("a.example", 20)...))
	c.work(200)
	if w := c.owner.Workers(); w["w1"].Lost != 0 || w["w2"].Lost == 0 || c.forged() != 0 {
		t.Errorf("%+v, %d forged", w, c.forged())
	}
}

// TestChangingPagesAccuseNobody: if all three opinions differ, the page changes with each fetch.
func TestChangingPagesAccuseNobody(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2", "w3")
	c.page = func(_, url string, visit int) string { return fmt.Sprint(url, visit) }
	c.keep(c.post(0, pages("a.example", 20)...))
	c.work(200)
	if w := c.owner.Workers(); w["w1"].Lost+w["w2"].Lost+w["w3"].Lost != 0 || w["w1"].Unclear != trust.First {
		t.Errorf("%+v", w)
	}
	if n := c.owner.Counts(c.id); n.Done != 20 || n.Outstanding() != 0 {
		t.Errorf("%+v", n)
	}
}

// TestNobodyToCheck: without another worker the pages stay as they are, and the job ends.
func TestNobodyToCheck(t *testing.T) {
	c := newCrew(t, 1, "w1")
	c.keep(c.post(0, pages("a.example", 20)...))
	c.work(200)
	if w := c.owner.Workers()["w1"]; w.Unclear != 20 || c.requests != 20 {
		t.Errorf("%+v, %d requests", w, c.requests)
	}
	if n := c.owner.Counts(c.id); n.Done != 20 || n.Outstanding() != 0 {
		t.Errorf("%+v", n)
	}
}

// TestLateReportsOfLiars: the certificates of a worker that has lost a check count no more.
func TestLateReportsOfLiars(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2", "self")
	c.page = func(worker, url string, _ int) string {
		if worker == "w1" {
			return "a lie"
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("b.example", 30)...))
	c.placed(c.do(nil), "w1")
	g := c.ask("w1", "b.example", nil, 3)
	by := &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
	c.keep(c.post(0, pages("a.example", 12)...))
	c.work(60)
	if c.owner.Workers()["w1"].Lost == 0 {
		t.Fatal("the lie was not found")
	}
	late := &wire.Session{Hosts: []*wire.HostWork{{Host: "b.example", Certificate: by, Fetched: []*wire.Fetched{c.got(granted(g)[0], link.OutcomeOK)}}}}
	if n := c.unasked("w1", late); n != 1 {
		t.Errorf("%d outcomes were left aside", n)
	}
}

// TestTrustIsKept: what an owner knows of a worker outlasts a restart.
func TestTrustIsKept(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2")
	c.keep(c.post(0, pages("a.example", 12)...))
	c.work(100)
	before := c.owner.Workers()["w1"]
	c.open(c.now)
	c.keep(c.post(0, pages("b.example", 5)...))
	c.work(100)
	if after := c.owner.Workers()["w1"]; after.Checked != before.Checked || after.Agreed != before.Agreed || after.Since != before.Since {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// TestLoserGetsNoLease: a worker that has lost a check gets no lease for an hour, even if it is
// preferred: otherwise its pages would be fetched again by itself, without end.
func TestLoserGetsNoLease(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2", "w3")
	c.page = func(worker, url string, _ int) string {
		if worker == "w1" {
			return "a lie"
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("a.example", 60)...))
	c.work(100)
	if n, w := c.owner.Counts(c.id), c.owner.Workers()["w1"]; n.Done != 60 || n.Outstanding() != 0 || c.forged() != 0 || w.Lost != 1 {
		t.Fatalf("%+v, %d forged; w1: %+v", n, c.forged(), w)
	}
	c.keep(c.post(0, pages("b.example", 20)...))
	asks := func() int {
		reply, ready := c.say("w1", &wire.Session{Hosts: []*wire.HostWork{{Host: "b.example", Want: 4}}})
		c.keep(ready)
		return len(reply.GetGrants())
	}
	if asks() != 0 {
		t.Error("it gets a host that was not offered")
	}
	c.now = c.now.Add(time.Hour)
	if c.keep(c.do(nil)); asks() != 1 {
		t.Error("it gets no host after an hour")
	}
}

// TestOwnWorkerIsChecked: the owner's own worker may be deceived as well, such as by its proxy.
func TestOwnWorkerIsChecked(t *testing.T) {
	c := newCrew(t, 0.02, "self", "w2", "w3")
	c.page = func(worker, url string, _ int) string {
		if worker == "self" {
			return "of the proxy"
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("a.example", 30)...))
	c.work(100)
	if n, w := c.owner.Counts(c.id), c.owner.Workers()["self"]; n.Done != 30 || n.Outstanding() != 0 || c.forged() != 0 || w.Lost != 1 {
		t.Errorf("%+v, %d forged; self: %+v", n, c.forged(), w)
	}
}

// TestFirstPagesAreCheckedSoon: the checks of a new worker's first pages interrupt its lease, those
// of its later pages wait.
func TestFirstPagesAreCheckedSoon(t *testing.T) {
	c := newCrew(t, 0.02, "w1", "w2")
	at := 0
	c.page = func(worker, url string, _ int) string {
		c.now = c.now.Add(time.Second)
		if worker != "w1" && at == 0 {
			at = c.requests
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("a.example", 60)...))
	c.work(100)
	if n := c.owner.Counts(c.id); n.Done != 60 || n.Outstanding() != 0 || at == 0 || at > 16 {
		t.Errorf("%+v; checked after %d requests", n, at)
	}
}

// TestOthersDoNotAnswerChecks: while a check is out at another worker, the checked one cannot
// confirm itself by repeating its report under its certificate.
func TestOthersDoNotAnswerChecks(t *testing.T) {
	c := newCrew(t, 0.02, "liar", "w2", "w3")
	lies := make(map[string]*wire.Fetched)
	c.page = func(worker, url string, _ int) string {
		if worker == "liar" {
			sum := sha256.Sum256([]byte("a lie"))
			lies[url] = c.got(url, link.OutcomeOK)
			lies[url].Digest, lies[url].FetchedMs = sum[:], lies[url].GetFetchedMs()+5
			return "a lie"
		}
		if lie := lies[url]; lie != nil {
			_, ready := c.say("liar", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Certificate: c.by["liar"], Fetched: []*wire.Fetched{lie}}}})
			c.keep(ready)
		}
		return "the page " + url
	}
	c.keep(c.post(0, pages("a.example", 4)...))
	c.work(100)
	if w := c.owner.Workers()["liar"]; w.Lost == 0 || w.Agreed > 0 || c.forged() != 0 {
		t.Errorf("liar: %+v, %d forged", w, c.forged())
	}
	if n := c.owner.Counts(c.id); n.Done != 4 || n.Outstanding() != 0 {
		t.Errorf("%+v", n)
	}
}

// TestChecksKeepTheRequestLimit: a host gets no more requests with checks than its limit.
func TestChecksKeepTheRequestLimit(t *testing.T) {
	c := newCrew(t, 1, "w1", "w2")
	c.owner.Cfg.MaxRequests = 12
	c.keep(c.post(0, pages("a.example", 10)...))
	c.work(100)
	if n := c.owner.Counts(c.id); c.requests > 12 || n.Outstanding() != 0 {
		t.Errorf("%d requests; %+v", c.requests, n)
	}
}
