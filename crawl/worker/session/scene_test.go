package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

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
