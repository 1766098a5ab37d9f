package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// hands is a Driver that keeps the windows and fetches nothing.
type hands struct {
	windows      map[string][]URL
	full         bool
	pace, owed   time.Duration
	turnAway     time.Duration // what Learn asks for
	woken        map[*Session]int
	forgotten    []*Lease
	acknowledged []*Report
}

func (d *hands) Wake(s *Session)                      { d.woken[s]++ }
func (d *hands) Full() bool                           { return d.full }
func (d *hands) Left(l *Lease) int                    { return len(d.windows[l.Host]) }
func (d *hands) Pace(*Lease) time.Duration            { return d.pace }
func (d *hands) Owed(time.Time, *Lease) time.Duration { return d.owed }
func (d *hands) Acknowledged(r *Report)               { d.acknowledged = append(d.acknowledged, r) }
func (d *hands) Learn(time.Time, *Lease, *wire.Grant) (time.Duration, string) {
	return d.turnAway, "turned away"
}

func (d *hands) Backlog() (n int) {
	for _, window := range d.windows {
		n += len(window)
	}
	return n
}

func (d *hands) Take(l *Lease, g *wire.Grant) int {
	urls := slices.Collect(URLs(g))
	d.windows[l.Host] = append(d.windows[l.Host], urls...)
	return len(urls)
}

func (d *hands) Drain(_ time.Time, l *Lease, _ time.Duration) {
	for _, u := range d.windows[l.Host] {
		l.Return(u.Job, u.URL)
	}
	delete(d.windows, l.Host)
}

func (d *hands) Forget(l *Lease) {
	delete(d.windows, l.Host)
	d.forgotten = append(d.forgotten, l)
}

// bench is a machine with its hands and a time.
type bench struct {
	*Machine
	*hands
	t   *testing.T
	now time.Time
}

func newBench(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Incarnation = 7
	for _, f := range change {
		f(&cfg)
	}
	d := &hands{windows: make(map[string][]URL), woken: make(map[*Session]int)}
	return &bench{New(cfg, d), d, t, time.Unix(1e9, 0)}
}

// clock is the lease clock.
func (b *bench) clock() time.Duration { return b.now.Sub(time.Unix(1e9, 0)) }

func (b *bench) offer(owner string, hosts ...string) []int { return b.Offer(b.now, owner, hosts) }

// with is the session with an owner.
func (b *bench) with(owner string) *Session {
	b.t.Helper()
	for _, s := range b.Sessions() {
		if s.Owner() == owner {
			return s
		}
	}
	b.t.Fatalf("no session with %s", owner)
	return nil
}

// message makes the next one for an owner.
func (b *bench) message(owner string) *Turn {
	b.t.Helper()
	s := b.with(owner)
	t := b.Turn(b.now, s, s.Begin(), nil)
	if err := t.Message.Validate(); err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) answer(owner string, t *Turn, reply *wire.SessionReply) {
	b.answerRouted(owner, t, reply, nil)
}

func (b *bench) answerRouted(owner string, t *Turn, reply *wire.SessionReply, routes map[string]string) {
	b.t.Helper()
	if err := reply.Validate(); err != nil {
		b.t.Fatal(err)
	}
	b.Answered(b.now, b.with(owner), t, reply, b.clock(), routes)
}

var theJob = job.ID{1}

// grant of the first n URLs of a host under an epoch.
func grant(host string, epoch uint64, n int) *wire.Grant {
	g := &wire.Grant{Host: host, Epoch: &wire.Epoch{Counter: epoch, Peer: []byte("owner")}}
	for i := range n {
		g.Url = append(g.Url, fmt.Appendf(nil, "http://%s/%d", host, i))
	}
	if n > 0 {
		g.JobIds = [][]byte{theJob[:]}
	}
	return g
}

// lease has a host offered and granted with n URLs.
func (b *bench) lease(owner, host string, n int) *Lease {
	b.t.Helper()
	if declined := b.offer(owner, host); len(declined) > 0 {
		b.t.Fatalf("%s is declined", host)
	}
	b.answer(owner, b.message(owner), &wire.SessionReply{Grants: []*wire.Grant{grant(host, 1, n)}})
	return b.Lease(host)
}

// fetch tries the next URL of a host and reports it.
func (b *bench) fetch(l *Lease) *Report {
	u := b.windows[l.Host][0]
	b.windows[l.Host] = b.windows[l.Host][1:]
	r := reportOf(l, u.URL)
	b.Report(b.now, r)
	b.Changed(b.now, l)
	return r
}

func reportOf(l *Lease, url string) *Report {
	return &Report{Lease: l, Fetched: &wire.Fetched{Job: theJob[:], Url: []byte(url), Outcome: uint32(link.OutcomeHTTPError), Status: 404}}
}

// work is what a message says of a host; nil if nothing.
func work(t *Turn, host string) *wire.HostWork {
	for _, w := range t.Message.GetHosts() {
		if w.GetHost() == host {
			return w
		}
	}
	return nil
}

// TestLifeOfALease: a host is offered, wished for, granted, reported, dry for a while, and given
// back.
func TestLifeOfALease(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	s := b.with("owner")
	if !s.Due().Equal(b.now) || b.woken[s] != 1 {
		t.Errorf("due at %v, woken %d times", s.Due(), b.woken[s])
	}
	m := b.message("owner")
	if w := work(m, "a.example"); w.GetWant() != firstWindow || w.GetEpoch() != nil || len(m.Message.GetHeld()) != 0 {
		t.Errorf("the wish is told as %v", w)
	}
	b.answer("owner", m, &wire.SessionReply{Grants: []*wire.Grant{grant("a.example", 1, 1)}})
	l := b.Lease("a.example")
	if !l.Granted() || l.Until() != 6*time.Second || !l.Holds(6*time.Second-1) || l.Holds(6*time.Second) {
		t.Errorf("granted %v until %v", l.Granted(), l.Until())
	}
	if want := b.now.Add(2 * time.Second); !s.Due().Equal(want) {
		t.Errorf("renewed after %v", s.Due().Sub(b.now))
	}
	b.now = b.now.Add(time.Second)
	b.fetch(l)
	if !s.Due().Equal(b.now) {
		t.Errorf("the last outcome waits for %v", s.Due().Sub(b.now))
	}
	m = b.message("owner")
	if w := work(m, "a.example"); len(w.GetFetched()) != 1 || w.GetWant() != 256 || w.GetRelease() || len(m.Message.GetHeld()) != 1 {
		t.Errorf("the outcome is told as %v", w)
	}
	b.answer("owner", m, new(wire.SessionReply))
	if l.Until() != 7*time.Second {
		t.Errorf("renewed until %v", l.Until())
	}
	if got := s.Due().Sub(b.now); got != 250*time.Millisecond {
		t.Errorf("a dry host is given back after %v", got)
	}
	b.now = s.Due()
	m = b.message("owner")
	if w := work(m, "a.example"); !w.GetRelease() || len(m.Message.GetHeld()) != 0 || !l.Over() || b.Leases() != 0 || len(b.forgotten) != 1 {
		t.Errorf("given back as %v", w)
	}
	if s.Over() {
		t.Error("over before the release is acknowledged")
	}
	b.answer("owner", m, new(wire.SessionReply))
	if !s.Over() || b.Machine.Acknowledged() != 1 {
		t.Errorf("over %v, %d acknowledged", s.Over(), b.Machine.Acknowledged())
	}
	if b.End(s); len(b.Sessions()) != 0 {
		t.Error("the session is still there")
	}
}

// TestWhatHolds: only an answer that renews a lease prolongs it.
func TestWhatHolds(t *testing.T) {
	for name, reply := range map[string]*wire.SessionReply{
		"not renewed": {NotRenewed: []string{"a.example"}},
		"moved":       {Moved: []string{"a.example"}},
	} {
		b := newBench(t)
		l := b.lease("owner", "a.example", 10)
		b.now = b.now.Add(2 * time.Second)
		if b.answerRouted("owner", b.message("owner"), reply, nil); l.Until() != 6*time.Second {
			t.Errorf("%s: until %v", name, l.Until())
		}
	}
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	b.now = b.now.Add(2 * time.Second)
	m := b.message("owner")
	sent := b.clock()
	b.now = b.now.Add(3 * time.Second)
	if b.Answered(b.now, b.with("owner"), m, &wire.SessionReply{TtlMs: 4000}, sent, nil); l.Until() != 6*time.Second {
		t.Errorf("a shorter TTL cuts the lease to %v", l.Until())
	}
	b.Answered(b.now, b.with("owner"), b.message("owner"), &wire.SessionReply{TtlMs: 40000}, sent, nil)
	if l.Until() != sent+30*time.Second {
		t.Errorf("until %v, want it from the sending on", l.Until())
	}
}

// TestLapse: leases end by the lease clock, and all of them when nobody knows how much time went
// by.
func TestLapse(t *testing.T) {
	b := newBench(t)
	first := b.lease("owner", "a.example", 10)
	b.now = b.now.Add(time.Second)
	second := b.lease("other", "b.example", 10)
	b.offer("other", "c.example")
	if lapsed, next := b.Lapse(b.now, 6*time.Second-1, false); len(lapsed) != 0 || next != 6*time.Second {
		t.Errorf("%d lapsed, the next at %v", len(lapsed), next)
	}
	if lapsed, next := b.Lapse(b.now, 6*time.Second, false); len(lapsed) != 1 || lapsed[0] != first || !first.Over() || next != 7*time.Second {
		t.Errorf("%d lapsed, the next at %v", len(lapsed), next)
	}
	if lapsed, _ := b.Lapse(b.now, 0, true); len(lapsed) != 1 || lapsed[0] != second || b.Lease("c.example") == nil {
		t.Errorf("%d lapsed", len(lapsed))
	}
}

// TestReportBetween: a report that comes while the archive is synced is not in the message, and has
// another one follow.
func TestReportBetween(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	s := b.with("owner")
	b.fetch(l)
	n := s.Begin()
	b.fetch(l)
	m := b.Turn(b.now, s, min(n, s.Ready()), nil)
	if len(m.Reports) != 1 || s.Ready() != 1 || !s.Due().Equal(b.now.Add(150*time.Millisecond)) {
		t.Errorf("%d told, %d wait, the next message after %v", len(m.Reports), s.Ready(), s.Due().Sub(b.now))
	}
}

// TestReportsWait: outcomes leave together, at once when they are many or nothing else is to be
// done.
func TestReportsWait(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReportBatch = 3 })
	l := b.lease("owner", "a.example", 200)
	s := b.with("owner")
	for i, want := range []time.Duration{150 * time.Millisecond, 150 * time.Millisecond, 0} {
		if full := b.Report(b.now, reportOf(l, "http://a.example/")); full != (want == 0) || s.Due().Sub(b.now) != want {
			t.Errorf("after %d: full %v, due in %v", i+1, full, s.Due().Sub(b.now))
		}
	}
}

// TestNotTaken: what an owner refuses, or does not hear, is told again in its order, ever later,
// and forgotten beyond a bound.
func TestNotTaken(t *testing.T) {
	for _, refused := range []bool{true, false} {
		b := newBench(t, func(c *Config) { c.MaxReports = 3 })
		l := b.lease("owner", "a.example", 10)
		s := b.with("owner")
		var all []*Report
		for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			if i < 5 {
				all = append(all, b.fetch(l))
			}
			m := b.message("owner")
			if refused {
				b.answer("owner", m, &wire.SessionReply{Refused: []string{"a.example"}})
			} else {
				b.Unanswered(b.now, s, m)
			}
			if got := s.Due().Sub(b.now); got != want*time.Millisecond {
				t.Errorf("refused %v: asked again after %v, want %v ms", refused, got, int64(want))
			}
			if b.Answering() != 0 || b.Telling() != 0 || b.Unreported() != min(i+1, 3) {
				t.Errorf("refused %v: %d reports, %d bytes to an owner that takes none, %d in all", refused, b.Answering(), b.Telling(), b.Unreported())
			}
			b.now = s.Due()
		}
		m := b.message("owner")
		if !slices.Equal(m.Reports, all[2:]) || b.Dropped() != 2 {
			t.Errorf("refused %v: %d are told, %d dropped", refused, len(m.Reports), b.Dropped())
		}
		b.answer("owner", m, new(wire.SessionReply))
		if !slices.Equal(b.hands.acknowledged, all[2:]) || s.Bytes() != 0 || l.untold != 0 {
			t.Errorf("refused %v: %d acknowledged, %d bytes and %d outcomes are left", refused, len(b.hands.acknowledged), s.Bytes(), l.untold)
		}
	}
}

// TestDroppedWhole: the oldest outcome is dropped with the pieces that go ahead of it.
func TestDroppedWhole(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxReports = 4 })
	l := b.lease("owner", "a.example", 10)
	for range 3 {
		r := reportOf(l, "http://a.example/")
		r.Piece = true
		b.Report(b.now, r)
	}
	b.Report(b.now, reportOf(l, "http://a.example/"))
	b.Report(b.now, reportOf(l, "http://a.example/1"))
	s := b.with("owner")
	b.Unanswered(b.now, s, b.message("owner"))
	if s.Ready() != 1 || b.Dropped() != 1 || l.untold != 1 {
		t.Errorf("%d reports are left, %d were dropped", s.Ready(), b.Dropped())
	}
}

// TestOfferedAgain: an offer that overtakes the end of a lease is taken up after it.
func TestOfferedAgain(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	if declined := b.offer("other", "a.example"); len(declined) != 1 {
		t.Error("another owner's offer of what is held is taken")
	}
	if declined := b.offer("owner", "a.example"); len(declined) != 0 {
		t.Error("the owner's offer is declined")
	}
	b.answer("owner", b.message("owner"), &wire.SessionReply{Revoked: []string{"a.example"}})
	wish := b.Lease("a.example")
	if !l.Over() || wish == nil || wish == l || wish.Granted() || len(b.forgotten) != 1 {
		t.Fatalf("after the revocation: %+v", wish)
	}
	if w := work(b.message("owner"), "a.example"); w.GetWant() == 0 || w.GetEpoch() != nil {
		t.Errorf("it is wished for as %v", w)
	}
}

// TestNotGranted: a wish that is not granted is over.
func TestNotGranted(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	if b.answer("owner", b.message("owner"), new(wire.SessionReply)); b.Leases() != 0 || !b.with("owner").Over() {
		t.Error("it is still wished for")
	}
}

// TestWishOfTheDead: the wish for a host whose owner does not answer goes to whoever owns it now, which
// may offer it as well.
func TestWishOfTheDead(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	s := b.with("owner")
	b.Unanswered(b.now, s, b.message("owner"))
	if declined := b.offer("next", "a.example"); len(declined) != 1 {
		t.Error("another owner's offer is taken while the first may yet grant")
	}
	routes := make(map[string]string)
	for _, host := range s.Hosts() {
		routes[host] = "next"
	}
	if b.Follow(b.now, s, routes); !s.Over() {
		t.Error("it is still wished for from the dead")
	}
	if declined := b.offer("next", "a.example"); len(declined) != 0 {
		t.Error("the new owner's offer is declined")
	}
	if w := work(b.message("next"), "a.example"); w.GetWant() == 0 {
		t.Errorf("the new owner is told %v", w)
	}
}

// TestHungry: an owner that has URLs and grants none is asked again after a while.
func TestHungry(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	b.windows["a.example"] = b.windows["a.example"][:1]
	none := grant("a.example", 1, 0)
	none.More = true
	b.answer("owner", b.message("owner"), &wire.SessionReply{Grants: []*wire.Grant{none}})
	if got := b.with("owner").Due().Sub(b.now); got != 200*time.Millisecond || !l.more {
		t.Errorf("asked again after %v", got)
	}
}

// TestDeclined: what is granted under a lease that is not held goes back with its URLs, and makes a
// lease of another epoch void.
func TestDeclined(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	other := grant("a.example", 2, 5)
	other.Url[4] = []byte("http://b.example/") // not of this host
	b.answer("owner", b.message("owner"), &wire.SessionReply{Grants: []*wire.Grant{other, grant("c.example", 3, 2)}})
	if !l.Over() || b.Leases() != 0 {
		t.Error("the old lease is held")
	}
	m := b.message("owner")
	for host, want := range map[string]struct {
		epoch    uint64
		returned int
	}{"a.example": {2, 4}, "c.example": {3, 2}} {
		if w := work(m, host); !w.GetRelease() || w.GetEpoch().GetCounter() != want.epoch || len(w.GetReturned()) != want.returned {
			t.Errorf("%s is given back as %v", host, w)
		}
	}
}

// TestClose: a host that is closed is given back once its pages are reported, with the URLs that
// were not tried, and takes no more.
func TestClose(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	l.Piped++
	b.Close(b.now, l, 5*time.Second, "it asks for silence")
	b.Close(b.now, l, time.Second, "another reason")
	if w := work(b.message("owner"), "a.example"); w != nil {
		t.Errorf("before its page is reported: %v", w)
	}
	l.Piped--
	b.owed = 1500 * time.Microsecond
	b.Report(b.now, reportOf(l, "http://a.example/x"))
	b.Changed(b.now, l)
	w := work(b.message("owner"), "a.example")
	if !w.GetRelease() || len(w.GetFetched()) != 1 || len(w.GetReturned()) != 10 || w.GetBackoffMs() != 5001 || w.GetBackoffReason() != "it asks for silence" || w.GetOwedMs() != 3 {
		t.Errorf("given back as %v", w)
	}

	b.offer("owner", "b.example", "c.example")
	b.Accept(false)
	m := b.message("owner")
	b.CloseAll(b.now)
	if b.Leases() != 0 {
		t.Error("wishes are kept")
	}
	b.answer("owner", m, &wire.SessionReply{Grants: []*wire.Grant{grant("b.example", 4, 3)}})
	if w := work(b.message("owner"), "b.example"); !w.GetRelease() || len(w.GetReturned()) != 3 {
		t.Errorf("granted after the end: %v", w)
	}
	if declined := b.offer("owner", "d.example"); len(declined) != 1 {
		t.Error("an offer is taken after the end")
	}
}

// TestTurnedAway: a driver that has no room for what a grant says of a host has it given back.
func TestTurnedAway(t *testing.T) {
	b := newBench(t)
	b.turnAway = 5 * time.Second
	l := b.lease("owner", "a.example", 4)
	if w := work(b.message("owner"), "a.example"); !w.GetRelease() || len(w.GetReturned()) != 4 || w.GetBackoffReason() != "turned away" || !l.Over() {
		t.Errorf("given back as %v", w)
	}
}

// TestReroute: a host that moves takes its lease, its outcomes and its release along; owners that
// send us to each other are asked ever later.
func TestReroute(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	gone := b.lease("owner", "b.example", 1)
	b.fetch(l)
	b.Close(b.now, gone, 0, "")
	m := b.message("owner")
	b.answerRouted("owner", m, &wire.SessionReply{Moved: []string{"a.example", "b.example"}}, map[string]string{"a.example": "next", "b.example": ""})
	if l.Owner() != "next" || l.Over() || b.Lease("a.example") != l {
		t.Errorf("the lease is with %s", l.Owner())
	}
	if !b.with("owner").Due().Equal(b.now.Add(50 * time.Millisecond)) {
		t.Error("an owner is asked at once for what nobody else is known for")
	}
	if m := b.message("next"); len(m.Reports) != 1 || len(m.Message.GetHeld()) != 1 {
		t.Errorf("the next owner is told %v", m.Message)
	}
	if w := work(b.message("owner"), "b.example"); !w.GetRelease() {
		t.Error("the release is not told again")
	}
	s := b.with("owner")
	b.Reroute(b.now, s, "b.example", "next")
	if !s.Over() || work(b.message("next"), "b.example") == nil {
		t.Error("the release did not go along")
	}

	from, to := "next", "third"
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		s := b.with(from)
		b.Reroute(b.now, s, "a.example", to)
		if s.Over() {
			b.End(s)
		}
		if got := b.with(to).Due().Sub(b.now); got != want*time.Millisecond {
			t.Errorf("after %d owners the next is asked after %v, want %d ms", i+2, got, want)
		}
		b.with(to).Begin()
		from, to = to, from
	}
}

// TestWindow: more is asked for when half of a window is left, by the pace of the host, and one URL
// at a time while all windows are full.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		pace time.Duration
		full bool
		left int
		want uint32
	}{
		{0, false, 128, 128},
		{0, false, 129, 0},
		{0, false, 0, 256},
		{time.Second, false, 4, 4},
		{time.Second, false, 5, 0}, // at least eight
		{100 * time.Millisecond, false, 20, 20},
		{0, true, 0, 1},
		{0, true, 1, 0},
	} {
		b := newBench(t)
		l := b.lease("owner", "a.example", 200)
		b.pace, b.full = tt.pace, tt.full
		b.windows["a.example"] = b.windows["a.example"][:tt.left]
		if got := work(b.message("owner"), "a.example").GetWant(); got != tt.want || l.asked != (tt.want > 0) {
			t.Errorf("%+v: wants %d", tt, got)
		}
	}
}

// TestRoom: a machine takes as many hosts as it may, some of them spared from those of one domain,
// and none while it has enough to do.
func TestRoom(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxHosts, c.Capacity = 8, 20 })
	var farm []string
	for i := range 10 {
		farm = append(farm, fmt.Sprintf("h%d.farm.example", i))
	}
	if declined := b.offer("owner", farm...); !slices.Equal(declined, []int{6, 7, 8, 9}) {
		t.Errorf("declined %v of a farm", declined)
	}
	if declined := b.offer("owner", "a.example", "b.example", "c.example"); !slices.Equal(declined, []int{2}) {
		t.Errorf("declined %v", declined)
	}
	b.Close(b.now, b.Lease("a.example"), 0, "")
	b.windows["b.example"] = make([]URL, 20)
	if declined := b.offer("owner", "c.example"); len(declined) != 1 {
		t.Error("taken beyond the capacity")
	}
}

// TestMessagesHold: a message has no more than may be in one, and what is left follows.
func TestMessagesHold(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReportBatch = 1 << 20 })
	l := b.lease("owner", "a.example", 1)
	for range 3000 {
		b.Report(b.now, reportOf(l, "http://a.example/"+strings.Repeat("x", 1500)))
	}
	s := b.with("owner")
	for s.Ready() > 0 {
		before := s.Ready()
		m := b.message("owner")
		if len(m.Reports) == 0 || len(m.Reports) > wire.MaxFetched || proto.Size(m.Message) > MaxMessage+1<<10 {
			t.Fatalf("a message of %d outcomes and %d bytes", len(m.Reports), proto.Size(m.Message))
		}
		if s.Ready() > 0 && !s.Due().Equal(b.now) {
			t.Errorf("%d of %d wait until %v", s.Ready(), before, s.Due())
		}
		b.answer("owner", m, new(wire.SessionReply))
	}
	for i := range wire.MaxHosts + 10 {
		s.releases = append(s.releases, &release{&Lease{}, &wire.HostWork{Host: fmt.Sprintf("h%d.example", i), Release: true}})
	}
	m := b.message("owner")
	b.answer("owner", m, new(wire.SessionReply))
	if len(m.Message.GetHosts()) >= wire.MaxHosts || len(s.releases) == 0 || len(s.releases) > 20 {
		t.Errorf("%d hosts in a message, %d wait", len(m.Message.GetHosts()), len(s.releases))
	}
}

// check holds a machine's parts against each other.
func (b *bench) check() error {
	untold, listed := make(map[*Lease]int), 0
	kin := 0
	for _, n := range b.kin {
		kin += n
	}
	for _, s := range b.Sessions() {
		sum := int64(0)
		for _, r := range append(slices.Clone(s.reports), s.sending...) {
			sum += int64(r.size)
			untold[r.Lease]++
		}
		if sum != s.bytes {
			return fmt.Errorf("%s: %d bytes of reports, counted as %d", s.owner, sum, s.bytes)
		}
		for i, l := range s.leases {
			listed++
			if l.place != i || s.hosts[l.Host] != l || l.owner != s.owner || l.over || b.Lease(l.Host) != l {
				return fmt.Errorf("%s: place %d: %+v", s.owner, i, l)
			}
		}
		if len(s.hosts) != len(s.leases) {
			return fmt.Errorf("%s: %d hosts, %d leases", s.owner, len(s.hosts), len(s.leases))
		}
		if !s.Over() && s.at.IsZero() && len(s.sending) == 0 {
			return fmt.Errorf("%s: something is left to say and never will be", s.owner)
		}
	}
	for l, n := range untold {
		if l.untold != n {
			return fmt.Errorf("%s: %d outcomes are to be told, counted as %d", l.Host, n, l.untold)
		}
	}
	if listed != b.Leases() || kin != b.Leases() {
		return fmt.Errorf("%d leases are listed and %d counted by domain, of %d", listed, kin, b.Leases())
	}
	return nil
}

// anything lets an event happen that may: owners offer, grant, refuse, revoke and send elsewhere as
// they like.
func (b *bench) anything(rnd *rand.Rand, epoch *uint64) *Turn {
	owners := []string{"one", "two", "three"}
	hosts := []string{"a.example", "b.example", "c.example", "x.farm.example", "y.farm.example"}
	host, owner := hosts[rnd.IntN(len(hosts))], owners[rnd.IntN(len(owners))]
	l := b.Lease(host)
	held := l != nil && l.Granted()
	b.now = b.now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
	switch n := rnd.IntN(12); {
	case n == 0:
		b.offer(owner, host)
	case n == 1 && l != nil && rnd.IntN(4) == 0:
		b.Close(b.now, l, time.Duration(rnd.IntN(3))*time.Second, "so")
	case n == 2:
		b.Lapse(b.now, b.clock(), false)
	case n < 6 && held && len(b.windows[host]) > 0 && !l.Closing():
		b.fetch(l)
	default:
		if len(b.Sessions()) == 0 {
			return nil
		}
		s := b.Sessions()[rnd.IntN(len(b.Sessions()))]
		if s.Over() {
			b.End(s)
			return nil
		}
		m := b.Turn(b.now, s, s.Begin(), nil)
		if rnd.IntN(5) == 0 {
			b.Unanswered(b.now, s, m)
			return m
		}
		reply, routes := new(wire.SessionReply), make(map[string]string)
		for _, w := range m.Message.GetHosts() {
			switch rnd.IntN(8) {
			case 0:
				reply.Refused = append(reply.Refused, w.GetHost())
			case 1:
				reply.Moved = append(reply.Moved, w.GetHost())
				routes[w.GetHost()] = owners[rnd.IntN(len(owners))]
			case 2:
				reply.Revoked = append(reply.Revoked, w.GetHost())
			default:
				if w.GetWant() == 0 {
					break
				}
				g := grant(w.GetHost(), 0, rnd.IntN(5))
				if g.Epoch = w.GetEpoch(); g.Epoch == nil || rnd.IntN(10) == 0 {
					*epoch++
					g.Epoch = &wire.Epoch{Counter: *epoch}
				}
				g.More, g.GiveBack = rnd.IntN(2) == 0, rnd.IntN(6) == 0
				reply.Grants = append(reply.Grants, g)
			}
		}
		b.Answered(b.now, s, m, reply, b.clock(), routes)
		return m
	}
	return nil
}

// TestAnything: whatever happens, the parts of a machine fit each other and nothing is left unsaid;
// and the same events make the same messages.
func TestAnything(t *testing.T) {
	for seed := range uint64(200) {
		var told [2][]*wire.Session
		for run := range told {
			b := newBench(t, func(c *Config) { c.MaxReports = 20 })
			rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			epoch := uint64(0)
			for step := range 300 {
				if m := b.anything(rnd, &epoch); m != nil {
					told[run] = append(told[run], m.Message)
				}
				if err := b.check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		}
		if !slices.EqualFunc(told[0], told[1], func(a, b *wire.Session) bool { return proto.Equal(a, b) }) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
