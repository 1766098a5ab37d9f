package owner_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// changing is a site with pages that change, and a worker that fetches them.
type changing struct {
	*scene
	version func(url string, day float64) int // of its content
	lies    bool                              // the ETag stays
	noTag   bool
	answer  func(f *wire.Fetched) // changes an answer
	visits  map[string][]float64  // days of the visits by URL, after the first
	plain   int                   // of them, unconditional
	same    int                   // answers with status 304
	dropped int                   // of the next grants are not reported
}

func newChanging(t *testing.T, refresh string, change func(*owner.Config)) *changing {
	t.Helper()
	w := &changing{version: func(string, float64) int { return 1 }, visits: make(map[string][]float64)}
	w.scene = newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) {
		if change != nil {
			change(cfg)
		}
	})
	w.refresh(refresh)
	return w
}

func (w *changing) refresh(text string) {
	r, err := job.ParseRefresh(text)
	if err != nil {
		w.t.Fatal(err)
	}
	w.jobs[w.id].refresh = r
	w.do(func(o *owner.Owner) { o.JobChanged(w.id) })
}

func (w *changing) day() float64 { return w.now.Sub(epochStart).Hours() / 24 }

// fetch answers a URL of a grant.
func (w *changing) fetch(url string, r *wire.Revisit) *wire.Fetched {
	version := w.version(url, w.day())
	f := w.got(url, link.OutcomeOK)
	f.Content, f.Digest = uint64(pick(url, 1<<30))<<8+uint64(version), fmt.Appendf(nil, "%032x", pick(fmt.Sprint(url, version), 1<<31-1))
	f.Etag = fmt.Sprintf(`"%d"`, version)
	switch {
	case w.noTag:
		f.Etag = ""
	case w.lies:
		f.Etag = `"always"`
	}
	if r != nil {
		f.Again = true
		w.visits[url] = append(w.visits[url], w.day())
		if r.GetEtag() == "" {
			w.plain++
		}
		if r.GetEtag() != "" && r.GetEtag() == f.GetEtag() {
			w.same++
			f.Outcome, f.Status, f.Content, f.Digest = uint32(link.OutcomeDuplicate), http.StatusNotModified, 0, r.GetDigest()
		}
	}
	if w.answer != nil {
		w.answer(f)
	}
	return f
}

// serve fetches all that is granted until there is nothing to do, and returns the next time.
func (w *changing) serve() time.Time {
	w.t.Helper()
	for range 10_000 {
		ready := w.do(nil)
		var names []string
		for _, o := range w.placed(ready, "w") {
			names = append(names, o.Hosts...)
		}
		if len(names) == 0 && (ready.Next.IsZero() || ready.Next.After(w.now)) {
			return ready.Next
		}
		for _, host := range names {
			reply, _ := w.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 100}}})
			if len(reply.GetGrants()) == 0 {
				continue
			}
			g := reply.GetGrants()[0]
			again := make(map[int]*wire.Revisit)
			for _, r := range g.GetRevisits() {
				again[int(r.GetAt())] = r
			}
			if w.dropped > 0 {
				w.dropped--
				continue
			}
			var list []*wire.Fetched
			for i, url := range granted(g) {
				list = append(list, w.fetch(url, again[i]))
			}
			w.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Fetched: list, Release: true}}})
		}
	}
	w.t.Fatal("the owner is never idle")
	return time.Time{}
}

// live lets time pass, from one event to the next.
func (w *changing) live(days float64) {
	w.t.Helper()
	for end := w.now.Add(time.Duration(days * 24 * float64(time.Hour))); ; {
		next := w.serve()
		if next.IsZero() || next.After(end) {
			w.now = end
			w.serve()
			return
		}
		w.now = next
	}
}

func (w *changing) all() (n int) {
	for _, list := range w.visits {
		n += len(list)
	}
	return n
}

func (w *changing) counts() owner.Counts {
	c := w.owner.Counts(w.id)
	return c
}

func TestEachPageIsVisitedWithinTheInterval(t *testing.T) {
	w := newChanging(t, "7d", nil)
	w.post(1, append(pages("a.example", 30), pages("b.example", 20)...)...)
	w.live(40)
	if len(w.visits) != 50 {
		t.Fatalf("%d pages were visited again, want 50", len(w.visits))
	}
	for url, list := range w.visits {
		last := 0.0
		for _, day := range append(slices.Clone(list), 40) {
			if day-last > 7 || day != 40 && day-last < 5 {
				t.Errorf("%s: visited on days %.1f", url, list)
				break
			}
			last = day
		}
	}
	c := w.counts()
	if c.Accepted != 50 || c.Done != 50 || c.Outstanding() != 0 || c.Outcomes["ok"] != 50 {
		t.Errorf("counts %+v", c)
	}
	if w.same < 9*w.all()/10 || w.plain < 3 {
		t.Errorf("%d of %d visits cost a 304, %d were controls", w.same, w.all(), w.plain)
	}
	f := w.fate("http://a.example/00").Again
	if f.Visits < 5 || f.Changes != 0 {
		t.Errorf("fate %+v", f)
	}
}

func TestAChangedPageBringsItsLinks(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.version = func(url string, day float64) int {
		if url == "http://a.example/01" && day > 2.5 {
			return 2
		}
		return 1
	}
	w.answer = func(f *wire.Fetched) {
		if f.GetAgain() && f.GetStatus() == 200 && w.version(string(f.GetUrl()), w.day()) == 2 {
			f.Links = [][]byte{[]byte("http://b.example/new")}
		}
	}
	w.post(1, pages("a.example", 3)...)
	w.live(5)
	if f := w.fate("http://a.example/01"); f.Again.Changes != 1 || f.Again.Visits < 4 || f.Final.Outcome != link.OutcomeOK {
		t.Errorf("changed page: %+v", f)
	}
	if f := w.fate("http://a.example/00"); f.Again.Changes != 0 {
		t.Errorf("unchanged page: %+v", f)
	}
	if f := w.fate("http://b.example/new"); f.Final.Outcome != link.OutcomeOK {
		t.Errorf("link of a changed page: %+v", f)
	}
}

// TestAVisitIsNotLost ends leases and processes while visits are out.
func TestAVisitIsNotLost(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.post(1, pages("a.example", 5)...)
	w.live(0.5)
	w.dropped = 1
	w.live(0.6)
	if w.dropped != 0 || w.all() < 5 {
		t.Errorf("%d visits after a lease without a report", w.all())
	}
	w.dropped = 1
	w.live(0.9) // up to the grant
	w.crash(w.now, rand.New(rand.NewPCG(1, 2)))
	w.live(1)
	if len(w.visits) != 5 || w.all() < 10 {
		t.Errorf("%d visits to %d pages after a crash", w.all(), len(w.visits))
	}
}

func TestErrorsAreNoChanges(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.post(1, pages("a.example", 2)...)
	w.live(0.1)
	w.answer = func(f *wire.Fetched) {
		if f.GetAgain() {
			f.Outcome, f.Status, f.Digest, f.RecordId, f.Content = uint32(link.OutcomeHTTPError), 404, nil, nil, 0
		}
	}
	w.live(30)
	f := w.fate("http://a.example/00")
	if f.Final.Outcome != link.OutcomeOK || f.Again.Visits != 0 || f.Again.Changes != 0 {
		t.Errorf("a page that is gone: %+v", f)
	}
	if n := len(w.visits["http://a.example/00"]); n < 4 || n > 7 {
		t.Errorf("%d visits to a page that is gone for 30 days, want about 5: %v", n, w.visits)
	}
	w.answer = nil
	w.live(64)
	if f := w.fate("http://a.example/00"); f.Again.Visits == 0 {
		t.Errorf("a page that is back: %+v", f)
	}
}

// TestABudgetOfVisits spends a budget on the pages that change.
func TestABudgetOfVisits(t *testing.T) {
	w := newChanging(t, "24/day", nil)
	w.check = false // the steps are too many

	w.version = func(url string, day float64) int {
		if pick(url, 4) == 0 {
			return int(day / 3) // a quarter of the pages
		}
		return 1
	}
	for i := range 5 {
		w.post(1, pages(fmt.Sprintf("h%d.example", i), 40)...)
	}
	const days = 80
	w.live(days)
	if got, want := float64(w.all()), 24.*days; math.Abs(got-want) > 0.1*want {
		t.Errorf("%v visits, want about %v", got, want)
	}
	var often, seldom, changing, others float64
	for i := range 5 {
		for _, url := range pages(fmt.Sprintf("h%d.example", i), 40) {
			if n := float64(len(w.visits[url])); pick(url, 4) == 0 {
				often, changing = often+n, changing+1
			} else {
				seldom, others = seldom+n, others+1
			}
			if len(w.visits[url]) == 0 {
				t.Errorf("%s was never visited", url)
			}
		}
	}
	if often/changing < 2*seldom/others {
		t.Errorf("%.1f visits to a page that changes, %.1f to others", often/changing, seldom/others)
	}
}

func TestLyingValidatorsAreNotUsed(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.lies = true
	w.version = func(_ string, day float64) int { return int(4 * day) }
	w.post(1, pages("a.example", 20)...)
	w.live(20)
	changes := 0
	for _, url := range pages("a.example", 20) {
		changes += int(w.fate(url).Again.Changes)
	}
	if changes < 20*15 || w.same > 20 {
		t.Errorf("%d changes of 380 were seen, %d were hidden by a 304", changes, w.same)
	}
}

func TestRefreshOfARunningJob(t *testing.T) {
	w := newChanging(t, "off", nil)
	w.post(1, append(pages("a.example", 30), pages("b.example", 700)...)...)
	w.live(10)
	if w.all() != 0 {
		t.Fatalf("%d visits without a refresh", w.all())
	}
	w.refresh("7d")
	w.live(7)
	if len(w.visits) != 730 {
		t.Errorf("%d of 730 pages were visited within 7 days", len(w.visits))
	}
	w.refresh("off")
	before := w.all()
	w.live(20)
	if w.all() != before {
		t.Errorf("%d visits after the refresh was turned off", w.all()-before)
	}
	w.do(func(o *owner.Owner) {
		at := uint32(w.now.Unix())
		for want, list := range [][]*wire.Again{
			{{Host: "c.example", Now: true}, {Host: "a.example", Url: [][]byte{[]byte("http://a.example/none")}, Now: true}, {Host: "b.example"}},
			{{Host: "a.example", Url: [][]byte{[]byte("http://a.example/05")}, Now: true, AtS: at}, {Host: "b.example", Now: true, AtS: at}},
		} {
			for _, a := range list {
				if got := o.Refresh(a); got != want {
					t.Errorf("%v: %d jobs, want %d", a, got, want)
				}
			}
		}
	})
	w.live(0.5)
	if got := w.all() - before; got != 701 {
		t.Errorf("%d visits that were asked for, want 701", got)
	}
}

// TestSchedulesMoveWithTheirHosts hands the records over, as they are and as a replica has them.
func TestSchedulesMoveWithTheirHosts(t *testing.T) {
	for _, asReplica := range []bool{false, true} {
		w := newChanging(t, "7d", nil)
		w.post(1, pages("a.example", 20)...)
		w.live(10)
		next := w.fate("http://a.example/03").Again.Next
		kvs := exported(t, w.peer)
		if asReplica {
			kvs = copied(w.peer)
		}
		other := newPeer(t, owner.Config{Self: "other"}, everything(), w.jobs, w.now)
		other.step(w.now, func(o *owner.Owner) {
			if err := o.ImportUntil(kvs, w.now); err != nil {
				t.Fatal(err)
			}
			if err := o.ImportUntil(kvs, w.now); err != nil {
				t.Fatal(err)
			}
		})
		w.do(func(o *owner.Owner) { o.Remove(ring.Pos{}, ring.Pos{}) })
		w.peer = other
		if got := w.fate("http://a.example/03").Again; !got.Next.Equal(next) || got.Visits == 0 {
			t.Errorf("copied %v: next visit %v, was %v", asReplica, got.Next, next)
		}
		before := w.all()
		w.live(7)
		if w.all() < before+20 {
			t.Errorf("copied %v: %d visits after the handoff", asReplica, w.all()-before)
		}
	}
}

// TestFewHostsInMemory visits more hosts than the memory holds.
func TestFewHostsInMemory(t *testing.T) {
	w := newChanging(t, "2d", func(cfg *owner.Config) { cfg.MaxHosts = 8 })
	for i := range 60 {
		w.post(1, pages(fmt.Sprintf("h%d.example", i), 2)...)
	}
	w.live(6)
	if len(w.visits) != 120 || w.all() < 300 {
		t.Errorf("%d visits to %d of 120 pages", w.all(), len(w.visits))
	}
	for _, off := range []func(on bool){
		func(on bool) { w.state(map[bool]job.State{true: job.StateDone, false: job.StatePaused}[on]) },
		func(on bool) { w.refresh(map[bool]string{true: "2d", false: "off"}[on]) },
	} {
		off(false)
		before := w.all()
		w.live(30) // without a host that is looked at again and again
		if w.all() != before {
			t.Errorf("%d visits of a job that makes none", w.all()-before)
		}
		off(true)
		if w.live(3); w.all() < before+120 {
			t.Errorf("%d visits after that, want 120", w.all()-before)
		}
	}
}

func (w *changing) state(s job.State) {
	w.jobs[w.id].state = s
	w.do(func(o *owner.Owner) { o.JobChanged(w.id) })
}

// TestPeersShareABudget gives each of four owners its part of the visits, by its pages.
func TestPeersShareABudget(t *testing.T) {
	var peers []*changing
	var all []*wire.Shares
	for i := range 4 {
		w := newChanging(t, "100/day", nil)
		w.check = false
		w.id = job.ID([]byte("job number 00000"))
		w.post(1, pages(fmt.Sprintf("h%d.example", i), 10*(i+1))...)
		w.live(0.01)
		peers = append(peers, w)
		w.do(func(o *owner.Owner) { all = append(all, o.Shares()) })
	}
	for i, w := range peers {
		w.do(func(o *owner.Owner) { o.Share(4, slices.Delete(slices.Clone(all), i, i+1)) })
		before := w.all()
		w.live(10)
		if got, want := float64(w.all()-before), 1000*float64(i+1)/10; math.Abs(got-want) > 0.25*want {
			t.Errorf("peer %d made %v visits in ten days, want about %v", i, got, want)
		}
	}
	w := peers[0]
	w.do(func(o *owner.Owner) {
		o.Share(1000, []*wire.Shares{{}, {JobIds: [][]byte{w.id[:]}, Pages: []uint64{math.MaxUint64}, Threshold: []float64{math.NaN()}}, {JobIds: [][]byte{w.id[:]}, Pages: []uint64{10}, Threshold: []float64{1e300}}})
	})
	before := w.all()
	w.live(1500)
	if w.all() == before {
		t.Error("a lying neighbor takes the whole budget")
	}
}

// TestRefreshWithoutASchedule visits a page of a job without a refresh: another body with the same
// content is no change, and a wait for the end of the crawl does not count the outcome as taken.
func TestRefreshWithoutASchedule(t *testing.T) {
	const url = "http://a.example/"
	w := newChanging(t, "off", nil)
	bodies := 0
	w.noTag = true
	w.answer = func(f *wire.Fetched) {
		bodies++
		f.Digest = fmt.Appendf(nil, "%032d", bodies)
	}
	w.post(1, url)
	w.live(0.1)
	w.do(func(o *owner.Owner) { o.Refresh(&wire.Again{Host: "a.example", Now: true, AtS: uint32(w.now.Unix())}) })
	w.placed(w.do(nil), "w")
	reply, _ := w.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Want: 1}}})
	if len(reply.GetGrants()) != 1 || len(reply.GetGrants()[0].GetRevisits()) != 1 {
		t.Fatalf("reply %v", reply)
	}
	g := reply.GetGrants()[0]
	m := &wire.Session{Incarnation: 1, Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Fetched: []*wire.Fetched{w.fetch(url, g.GetRevisits()[0])}, Release: true}}}
	w.do(func(o *owner.Owner) {
		v := o.Visit("w", m)
		for !v.Go() {
		}
		if v.Taken[w.id] != 0 {
			t.Errorf("%d outcomes taken", v.Taken[w.id])
		}
	})
	if again := w.fate(url).Again; again == nil || again.Visits != 1 || again.Changes != 0 {
		t.Errorf("after the visit: %+v", again)
	}
}

// TestABudgetFromTheFirstDay begins to spend a budget while the pages are found.
func TestABudgetFromTheFirstDay(t *testing.T) {
	w := newChanging(t, "100/day", nil)
	w.check = false // the steps are too many
	for i := range 10 {
		w.post(1, pages(fmt.Sprintf("h%d.example", i), 20)...)
		w.live(0.01)
	}
	const days = 3
	w.live(days)
	if got := w.all(); got > 150*days {
		t.Errorf("%d visits in the first %d days, want at most 1.5 times the budget", got, days)
	}
}

// TestSignalsMakeVisitsEarlier lets a sitemap state the changes of pages: once they were right
// often enough, a changed page is visited at once.
func TestSignalsMakeVisitsEarlier(t *testing.T) {
	const sitemap = "http://a.example/sitemap.xml"
	for _, honest := range []bool{true, false} {
		w := newChanging(t, "20d", nil)
		every := 3.0 // days between two changes of a page
		change := func(url string, day float64) int { return int(day/every + float64(pick(url, 100))/100) }
		w.version = func(url string, day float64) int {
			if url == sitemap || honest {
				return change(url, day)
			}
			return 1
		}
		list := pages("a.example", 10)
		w.answer = func(f *wire.Fetched) {
			if string(f.GetUrl()) != sitemap || !f.GetAgain() {
				return
			}
			f.Status, f.Outcome = 200, uint32(link.OutcomeOK)
			for _, url := range list {
				if n := float64(change(url, w.day())); n > 0 {
					at := (n - float64(pick(url, 100))/100) * every
					f.Changed, f.ChangedS = append(f.Changed, []byte(url)), append(f.ChangedS, uint32(epochStart.Unix()+int64(at*86400)))
				}
			}
		}
		w.post(1, list...)
		m := links(w.id, 0, sitemap)
		m.Kind = []byte{byte(link.KindSitemap)}
		w.do(func(o *owner.Owner) { o.Links(m) })
		w.live(200)
		visits := 0
		for _, url := range list {
			visits += len(w.visits[url])
		}
		if usual := 10 * 200 / 19; honest != (visits > usual*3/2) || visits < usual-10 {
			t.Errorf("honest %v: %d visits, %d without signals", honest, visits, usual)
		}
		if got := w.fate(list[0]).Again; honest != (got.Changes > 10) {
			t.Errorf("honest %v: %+v", honest, got)
		}
	}
}

func TestIndexNowOnlyMovesVisits(t *testing.T) {
	w := newChanging(t, "10d", nil)
	w.post(1, pages("a.example", 3)...)
	w.live(5)
	notice := func(url string, at time.Time) {
		w.do(func(o *owner.Owner) {
			m := &wire.Again{Host: "a.example", Url: [][]byte{[]byte(url)}, AtS: uint32(at.Unix()), IndexNow: true}
			if err := m.Validate(); err != nil {
				t.Fatal(err)
			}
			o.Refresh(m)
		})
	}
	before := w.fate("http://a.example/01").Again.Next
	notice("http://a.example/01", epochStart) // before the last visit
	notice("http://a.example/01", w.now.Add(100*24*time.Hour))
	if next := w.fate("http://a.example/01").Again.Next; !next.Equal(before) {
		t.Errorf("a notice of another time moves the visit from %v to %v", before, next)
	}
	notice("http://a.example/01", w.now)
	notice("http://a.example/none", w.now)
	got := w.fate("http://a.example/01").Again
	if !got.Next.Before(before) || got.Next.Before(w.now.Add(-time.Second)) || got.Why != "IndexNow of the site states a change" {
		t.Errorf("after a notice: %+v, was due %v", got, before)
	}
	w.refresh("off")
	w.live(100)
	if w.all() > 0 {
		t.Error("a notice visits pages of a job without a refresh")
	}
}

// TestTwoVisitsInASecond visits a page in the second of its last visit: it is visited later again.
func TestTwoVisitsInASecond(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.post(1, pages("a.example", 1)...)
	w.live(1.5)
	w.answer = func(f *wire.Fetched) { f.FetchedMs = w.now.Add(-30 * time.Hour).UnixMilli() } // as if it was
	w.live(1)
	w.answer = nil
	before := w.all()
	w.live(3)
	if w.all() < before+2 {
		t.Errorf("%d visits in three days after one in the second of the last: %v", w.all()-before, w.visits)
	}
}

// TestAChangedRefreshScansAgain changes the refresh while entries are being scanned.
func TestAChangedRefreshScansAgain(t *testing.T) {
	w := newChanging(t, "off", nil)
	w.check = false
	for i := range 20 {
		w.post(1, pages(fmt.Sprintf("h%d.example", i), 99)...)
	}
	w.live(0.1)
	w.refresh("3650d")
	w.do(nil)
	w.refresh("1d")
	if w.live(3); len(w.visits) != 20*99 {
		t.Errorf("%d of %d pages were visited", len(w.visits), 20*99)
	}
}

// TestRepeatedAndLateReports: only one report of a visit counts, and errors only from the lease.
func TestRepeatedAndLateReports(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.post(1, pages("a.example", 1)...)
	w.live(0.5)
	const url = "http://a.example/00"
	before := w.fate(url).Again
	gone := w.got(url, link.OutcomeHTTPError)
	gone.Again = true
	for range 9 {
		w.tell("w", "a.example", &wire.Epoch{}, gone)
	}
	if got := w.fate(url).Again; *got != *before {
		t.Errorf("nine late reports of a missing page: %+v, was %+v", got, before)
	}
	w.answer = func(f *wire.Fetched) {
		if f.GetAgain() {
			f.FetchedMs, f.Outcome, f.Status, f.Digest, f.RecordId = 0, uint32(link.OutcomeHTTPError), 403, nil, nil
		}
	}
	w.live(10)
	if n := w.all(); n < 8 || n > 12 {
		t.Errorf("%d visits of a page that is forbidden in ten days at an interval of a day", n)
	}
	w.answer = func(f *wire.Fetched) { f.FetchedMs = 0 }
	before2 := w.all()
	w.live(10)
	if n := w.all() - before2; n < 8 || n > 13 {
		t.Errorf("%d visits in ten days by a worker without a clock", n)
	}
}

// TestARequestIsNotRepeated sends one request many times.
func TestARequestIsNotRepeated(t *testing.T) {
	w := newChanging(t, "off", nil)
	w.post(1, pages("a.example", 5)...)
	w.live(0.1)
	w.now = w.now.Add(time.Hour)
	m := &wire.Again{Host: "a.example", AtS: uint32(w.now.Unix()), Now: true}
	for range 3 {
		w.do(func(o *owner.Owner) {
			for range 2000 {
				if o.Refresh(m) != 1 {
					t.Fatal("refused")
				}
			}
		})
		w.live(0.1)
	}
	if w.all() != 5 {
		t.Errorf("%d visits, want 5", w.all())
	}
	w.refresh("3650d")
	w.now = w.now.Add(time.Hour)
	soon := &wire.Again{Host: "a.example", AtS: uint32(w.now.Unix())}
	now := &wire.Again{Host: "a.example", AtS: soon.AtS, Now: true}
	w.do(func(o *owner.Owner) {
		for _, a := range []*wire.Again{soon, now, soon} {
			o.Refresh(a)
		}
	})
	if next := w.fate("http://a.example/00").Again; next.Why != "asked for by refresh --now" {
		t.Errorf("after a request with --now behind one without: %+v", next)
	}
	w.state(job.StateCanceled)
	w.do(func(o *owner.Owner) {
		if o.Refresh(m) != 0 {
			t.Error("pages of a canceled job are visited")
		}
	})
}

// urlList is a list of opted-out URLs.
type urlList map[string]bool

func (urlList) Host(string) string { return "" }

func (l urlList) URL(url string) string {
	if l[url] {
		return "on the list"
	}
	return ""
}

func TestAnOptOutOfAURLMayEnd(t *testing.T) {
	list := urlList{}
	w := newChanging(t, "1d", func(cfg *owner.Config) { cfg.OptOuts = list })
	w.post(1, pages("a.example", 2)...)
	w.live(0.5)
	const url = "http://a.example/00"
	list[url] = true
	if w.live(5); len(w.visits[url]) != 0 || len(w.visits) != 1 {
		t.Errorf("visits %v while %s is on the list", w.visits, url)
	}
	delete(list, url)
	if w.live(3); len(w.visits[url]) < 2 {
		t.Errorf("visits %v after %s left the list", w.visits, url)
	}
}

// TestAJobThatBecomesUnknown has a change of its state and is then not known any more.
func TestAJobThatBecomesUnknown(t *testing.T) {
	w := newChanging(t, "1d", nil)
	w.post(1, pages("a.example", 2)...)
	w.live(0.5)
	w.state(job.StatePaused)
	e := w.jobs[w.id]
	delete(w.jobs, w.id)
	w.do(func(o *owner.Owner) { o.JobChanged(w.id) })
	w.live(3) // fails if there is always something to do
	w.jobs[w.id] = e
	w.state(job.StateRunning)
	if w.live(3); w.all() < 4 {
		t.Errorf("%d visits once the job is known again", w.all())
	}
}
