package owner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

const host = "a.example"

func posOf(name string) ring.Pos { return ring.PosOf(ring.HostKey(name)) }

// arc is a ring that a test changes: whether hosts are this peer's, and whether their records are
// all here.
type arc struct{ mine, settled bool }

func (a *arc) Mine(ring.Key) bool    { return a.mine }
func (a *arc) Settled(ring.Key) bool { return a.settled }

// newArcScene is a scene whose ring is an arc.
func newArcScene(t testing.TB, self string, settled bool, change func(*wire.JobSpec, *owner.Config)) (*scene, *arc) {
	t.Helper()
	a := &arc{mine: true, settled: settled}
	jobs := jobTable{}
	m := &wire.JobSpec{Seeds: [][]byte{[]byte("http://a.example/")}, Scope: []string{"*.example"}}
	cfg := owner.Config{Self: self, Settled: a.Settled, PlaceTimeout: 2 * time.Second} // some scenes leave the question who is to crawl unanswered
	if change != nil {
		change(m, &cfg)
	}
	s := &scene{id: jobs.add(t, m), now: epochStart}
	s.peer = newPeer(t, cfg, a, jobs, s.now)
	return s, a
}

// heartbeat is a session that only holds a lease.
func heartbeat(epoch *wire.Epoch) *wire.Session {
	return &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: epoch}}}
}

// TestNothingIsSaidBeforeSettled: while records may be on their way an owner takes links and says
// nothing to workers, whatever they ask; afterwards it does what it would have done.
func TestNothingIsSaidBeforeSettled(t *testing.T) {
	s, ring := newArcScene(t, "self", false, nil)
	if ready := s.post(0, pages(host, 5)...); len(ready.Places) > 0 {
		t.Error("a worker is looked for")
	}
	if s.wait(time.Minute); s.owner.Totals().URLsPending != 5 {
		t.Errorf("links are not taken: %+v", s.owner.Totals())
	}
	epoch := &wire.Epoch{Counter: 3, Peer: []byte("another")}
	for _, tt := range []struct {
		name string
		m    *wire.Session
	}{
		{"a lease that is not known", heartbeat(epoch)},
		{"an outcome under it", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: epoch, Fetched: []*wire.Fetched{s.got("http://a.example/00", link.OutcomeOK)}}}}},
		{"an outcome under none", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Fetched: []*wire.Fetched{s.got("http://a.example/00", link.OutcomeOK)}}}}},
		{"the end of a lease", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: epoch, Release: true}}}},
		{"a wish for URLs", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}}},
		{"a host that is not known", &wire.Session{Hosts: []*wire.HostWork{{Host: "b.example", Epoch: epoch, Want: 4}}}},
	} {
		reply, ready := s.say("w", tt.m)
		if len(reply.GetRefused()) != 1 || len(reply.GetNotRenewed()) != 1 || len(reply.GetRevoked())+len(reply.GetGrants())+len(reply.GetMoved())+len(ready.Places) > 0 {
			t.Errorf("%s: %v, %v", tt.name, reply, ready.Places)
		}
	}
	if got := s.owner.Totals(); got.Pages != 0 {
		t.Errorf("an outcome was taken: %+v", got)
	}
	ring.settled = true
	ready := s.do(func(o *owner.Owner) { o.SettledChanged() })
	if len(ready.Places) != 1 {
		t.Errorf("settled: places %v", ready.Places)
	}
	if reply, _ := s.say("w", heartbeat(epoch)); !slices.Equal(reply.GetRevoked(), []string{host}) {
		t.Errorf("settled: a lease that is none: %v", reply)
	}
}

// TestSettledAfterEviction: hosts that memory had no room for are found when the records are here.
func TestSettledAfterEviction(t *testing.T) {
	s, ring := newArcScene(t, "self", false, func(_ *wire.JobSpec, c *owner.Config) { c.MaxHosts = 2 })
	for _, name := range []string{"a.example", "b.example", "c.example", "d.example", "e.example"} {
		s.post(0, pages(name, 1)...)
	}
	for range 10 {
		if ready := s.wait(time.Second); len(ready.Places) > 0 {
			t.Fatalf("places %v", ready.Places)
		}
	}
	ring.settled = true
	s.do(func(o *owner.Owner) { o.SettledChanged() })
	placed := make(map[string]bool)
	for range 20 {
		for _, p := range s.wait(2 * time.Second).Places {
			placed[p.Host] = true
		}
	}
	if len(placed) != 5 {
		t.Errorf("workers are looked for for %v", placed)
	}
}

// TestFrozen: a host that is on its way stands still and says so, also when it is another's
// already; it goes on when that fails, or nobody says anything for a TTL.
func TestFrozen(t *testing.T) {
	for _, tt := range []struct {
		name string
		thaw func(s *scene)
	}{
		{"unfrozen", func(s *scene) { s.do(func(o *owner.Owner) { o.Unfreeze(posOf(host)) }) }},
		{"forgotten", func(s *scene) { s.wait(8 * time.Second) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ring := newArcScene(t, "self", true, nil)
			s.post(0, pages(host, 20)...)
			g := s.lease("w", host, 4)
			s.wait(time.Second)
			s.do(func(o *owner.Owner) { o.Freeze(posOf(host)) })
			before := exported(t, s.peer)
			work := &wire.Session{
				Held:  []*wire.HostLease{{Host: host, Epoch: g.GetEpoch()}},
				Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Want: 4, Fetched: []*wire.Fetched{s.got(granted(g)[0], link.OutcomeOK)}}},
			}
			for _, mine := range []bool{true, false} {
				ring.mine = mine
				reply, _ := s.say("w", work)
				if !slices.Equal(reply.GetRefused(), []string{host}) || !slices.Equal(reply.GetNotRenewed(), []string{host}) || len(reply.GetGrants())+len(reply.GetRevoked())+len(reply.GetMoved()) > 0 {
					t.Errorf("mine %v: %v", mine, reply)
				}
			}
			ring.mine = true
			var links_ *wire.LinksReply
			s.do(func(o *owner.Owner) { links_ = o.Links(links(s.id, 0, "http://a.example/new")) })
			if len(links_.GetBusy()) != 1 {
				t.Errorf("a link is answered %v", links_)
			}
			s.wait(6900 * time.Millisecond) // the lease would end 100 ms later
			if after := exported(t, s.peer); !slices.EqualFunc(before, after, func(a, b kv.Record) bool { return string(a.Value) == string(b.Value) && string(a.Key) == string(b.Key) }) {
				t.Error("records changed")
			}
			tt.thaw(s)
			s.wait(0)
			if s.owner.Totals().URLsLeased == 0 {
				return // it lapsed meanwhile
			}
			if reply, _ := s.say("w", work); len(reply.GetGrants()) != 1 || s.owner.Totals().Pages != 1 {
				t.Errorf("thawed: %v", reply)
			}
		})
	}
}

// TestFreezeEndsPlacing: no worker gets a host that is on its way.
func TestFreezeEndsPlacing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		freeze func(s *scene) *wire.SessionReply
	}{
		{"while a worker is looked for", func(s *scene) *wire.SessionReply {
			ready := s.do(func(o *owner.Owner) { o.Freeze(posOf(host)) })
			offers := s.placed(ready, "w")
			s.do(func(o *owner.Owner) { o.Placed(host, owner.Placement{Worker: "w", Why: "late"}) })
			if len(offers) > 0 {
				s.t.Errorf("offers %v", offers)
			}
			reply, _ := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
			return reply
		}},
		{"while it is offered", func(s *scene) *wire.SessionReply {
			s.do(func(o *owner.Owner) { o.Placed(host, owner.Placement{Worker: "w"}) })
			s.do(func(o *owner.Owner) { o.Freeze(posOf(host)) })
			reply, _ := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
			return reply
		}},
		{"in the step in which it is taken", func(s *scene) *wire.SessionReply {
			s.do(func(o *owner.Owner) { o.Placed(host, owner.Placement{Worker: "w"}) })
			var reply *wire.SessionReply
			s.do(func(o *owner.Owner) {
				reply = o.Session("w", &wire.Session{Incarnation: 1, Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
				o.Freeze(posOf(host))
				if note, ok := o.Lease(posOf(host)); ok {
					s.t.Errorf("a lease goes along that was never granted: %v", note)
				}
			})
			return reply
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newArcScene(t, "self", true, nil)
			s.post(0, pages(host, 20)...)
			if reply := tt.freeze(s); len(reply.GetGrants()) > 0 || len(reply.GetRefused())+len(reply.GetRevoked()) != 1 {
				t.Errorf("the worker hears %v", reply)
			}
			s.do(func(o *owner.Owner) { o.Unfreeze(posOf(host)) })
			if g := s.lease("w", host, 4); len(granted(g)) != 4 {
				t.Errorf("unfrozen: granted %v", g)
			}
		})
	}
}

// handoff moves a host from one owner to another as move.go says, and returns the note of its
// lease.
func handoff(from, to *scene, name string) *wire.LeaseNote {
	from.t.Helper()
	to.now = from.now
	var note *wire.LeaseNote
	var kvs []kv.Record
	from.do(func(o *owner.Owner) {
		o.Freeze(posOf(name))
		kvs = exported(from.t, from.peer)
		note, _ = o.Lease(posOf(name))
	})
	to.adopt(kvs, note)
	from.do(func(o *owner.Owner) { o.Remove(posOf(name), next(posOf(name))) })
	return note
}

func (s *scene) adopt(kvs []kv.Record, note *wire.LeaseNote) {
	s.t.Helper()
	s.do(func(o *owner.Owner) {
		if err := o.Import(kvs); err != nil {
			s.t.Fatal(err)
		}
		if note == nil {
			return
		}
		if err := note.Validate(); err != nil {
			s.t.Fatal(err)
		}
		if err := o.Adopt(note); err != nil {
			s.t.Fatal(err)
		}
	})
}

func next(p ring.Pos) ring.Pos {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			break
		}
	}
	return p
}

// TestLeaseMovesWithItsHost: the worker goes on under the same epoch at the new owner, also before
// that has settled; nothing is granted twice and nothing lost, and another worker waits until the
// lease is over, and no longer.
func TestLeaseMovesWithItsHost(t *testing.T) {
	for _, settled := range []bool{true, false} {
		for _, self := range []string{"next", "w"} { // the worker may be the new owner's own
			a, ring := newArcScene(t, "self", true, nil)
			a.post(0, pages(host, 20)...)
			g := a.lease("w", host, 6)
			a.wait(2 * time.Second)
			b, at := newArcScene(t, self, settled, nil)
			note := handoff(a, b, host)
			if note.GetRemainingMs() != 6000 || len(note.GetHash()) != 6 || note.GetIncarnation() != 1 {
				t.Errorf("note %v", note)
			}
			ring.mine = false
			if reply, _ := a.say("w", heartbeat(g.GetEpoch())); !slices.Equal(reply.GetMoved(), []string{host}) {
				t.Errorf("the old owner says %v", reply)
			}
			if got := b.owner.Totals(); got.URLsLeased != 6 || got.URLsPending != 14 || got.HostsLeased != 1 {
				t.Errorf("the new owner has %+v", got)
			}
			if ready := b.wait(5 * time.Second); len(ready.Places) > 0 {
				t.Errorf("places %v while the lease goes on", ready.Places)
			}
			work := &wire.Session{
				Seq: 9, Held: []*wire.HostLease{{Host: host, Epoch: g.GetEpoch()}},
				Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Want: 3, Fetched: []*wire.Fetched{b.got(granted(g)[0], link.OutcomeOK)}}},
			}
			reply, _ := b.say("w", work)
			if len(reply.GetGrants()) != 1 || len(reply.GetRefused())+len(reply.GetRevoked()) > 0 {
				t.Fatalf("settled %v: the worker hears %v", settled, reply)
			}
			more := reply.GetGrants()[0]
			if more.GetEpoch().GetCounter() != g.GetEpoch().GetCounter() || string(more.GetEpoch().GetPeer()) != "self" {
				t.Errorf("epoch %v after %v", more.GetEpoch(), g.GetEpoch())
			}
			for _, url := range granted(more) {
				if slices.Contains(granted(g), url) {
					t.Errorf("%s is granted twice", url)
				}
			}
			b.wait(7 * time.Second)
			if got := b.owner.Totals(); got.URLsLeased != 8 || got.Pages != 1 {
				t.Errorf("the lease was not renewed: %+v", got)
			}
			at.settled = true
			b.do(func(o *owner.Owner) { o.SettledChanged() })
			if reply, _ := b.say("w", &wire.Session{Seq: 10, Ack: 9, Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Release: true}}}); len(reply.GetRevoked()) > 0 {
				t.Errorf("the release: %v", reply)
			}
			if g2 := b.lease("w2", host, 20); len(granted(g2)) != 19 || g2.GetEpoch().GetCounter() != g.GetEpoch().GetCounter()+1 {
				t.Errorf("the next worker gets %v", g2)
			}
		}
	}
}

// TestAdoptedLeaseRunsOut: what remains is all there is, unless the worker renews it.
func TestAdoptedLeaseRunsOut(t *testing.T) {
	a, _ := newArcScene(t, "self", true, nil)
	a.post(0, pages(host, 20)...)
	a.lease("w", host, 6)
	a.wait(5 * time.Second)
	b, _ := newArcScene(t, "next", true, nil)
	handoff(a, b, host)
	if ready := b.wait(2999 * time.Millisecond); len(ready.Places) > 0 {
		t.Error("another worker is looked for within the lease")
	}
	if ready := b.wait(time.Millisecond); len(ready.Places) != 1 || b.owner.Totals().URLsLeased != 0 {
		t.Errorf("places %v, %+v", ready.Places, b.owner.Totals())
	}
	if f := b.fate("http://a.example/00"); f.Lapses != 1 {
		t.Errorf("%+v", f)
	}
}

// TestAdoptWithoutEffect names when a note changes nothing.
func TestAdoptWithoutEffect(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(b *scene, g *wire.Grant)
	}{
		{"the lease is here already", func(*scene, *wire.Grant) {}},
		{"it was given back here", func(b *scene, g *wire.Grant) {
			b.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Release: true}}})
		}},
		{"it lapsed here", func(b *scene, _ *wire.Grant) { b.wait(10 * time.Second) }},
		{"the host is leased to another", func(b *scene, g *wire.Grant) {
			b.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Release: true}}})
			b.lease("w2", host, 3)
		}},
		{"its worker has another process now", func(b *scene, _ *wire.Grant) { b.say("w", &wire.Session{Incarnation: 2}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := newArcScene(t, "self", true, nil)
			a.post(0, pages(host, 20)...)
			g := a.lease("w", host, 6)
			b, _ := newArcScene(t, "next", true, nil)
			b.now = a.now
			kvs := exported(t, a.peer)
			var note *wire.LeaseNote
			a.do(func(o *owner.Owner) { note, _ = o.Lease(posOf(host)) })
			b.adopt(kvs, note)
			tt.then(b, g)
			before, worker := b.owner.Totals(), b.owner.Delegated()
			b.adopt(kvs, note) // once more, as when the answer was lost
			if after := b.owner.Totals(); after != before {
				t.Errorf("%+v, then %+v", before, after)
			}
			for name := range b.owner.Delegated() {
				if worker[name] == 0 {
					t.Errorf("leased to %s", name)
				}
			}
			// Nor does the copy keep the host from others: the lease it names is known.
			if len(worker) == 0 && b.places(5*time.Second) == 0 {
				t.Error("no worker is looked for")
			}
		})
	}
}

// places counts how often workers are looked for in some time.
func (s *scene) places(d time.Duration) (n int) {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		n += len(s.wait(step).Places)
	}
	return n
}

// TestAdoptKnowsAnEarlierEnd: a process that is gone holds nothing, so nobody waits for it.
func TestAdoptKnowsAnEarlierEnd(t *testing.T) {
	a, _ := newArcScene(t, "self", true, nil)
	a.post(0, pages(host, 20)...)
	a.lease("w", host, 6)
	b, _ := newArcScene(t, "next", true, nil)
	b.say("w", &wire.Session{Incarnation: 2})
	handoff(a, b, host)
	if got := b.owner.Totals(); got.HostsLeased != 0 {
		t.Errorf("%+v", got)
	}
	if b.places(5*time.Second) == 0 {
		t.Error("the host waits for a process that is gone")
	}
}

// TestNotesOfStrangers: what a note says of a worker's process is believed until the worker speaks
// itself, and no lease that it has here by its own word ends of one. Nobody else gets the host of
// the note before that lease is over.
func TestNotesOfStrangers(t *testing.T) {
	const other = "b.example"
	note := func(t *testing.T) ([]kv.Record, *wire.LeaseNote) {
		t.Helper()
		a, _ := newArcScene(t, "elsewhere", true, nil)
		a.post(0, pages(other, 5)...)
		a.lease("w", other, 3)
		var m *wire.LeaseNote
		a.do(func(o *owner.Owner) { m, _ = o.Lease(posOf(other)) })
		m.Incarnation = 1 << 60
		return exported(t, a.peer), m
	}
	t.Run("the worker has a lease here", func(t *testing.T) {
		s, _ := newArcScene(t, "self", true, nil)
		s.post(0, pages(host, 5)...)
		g := s.lease("w", host, 2)
		kvs, m := note(t)
		s.adopt(kvs, m)
		if reply, _ := s.say("w", heartbeat(g.GetEpoch())); len(reply.GetRevoked()) > 0 {
			t.Errorf("its lease here ended: %v", reply)
		}
		if n := s.places(time.Duration(m.GetRemainingMs())*time.Millisecond - time.Second); n > 0 {
			t.Errorf("%d workers looked for while the other lease may be alive", n)
		}
		if s.places(5*time.Second) == 0 {
			t.Error("the host waits for ever")
		}
	})
	t.Run("nobody has heard of the worker", func(t *testing.T) {
		s, _ := newArcScene(t, "self", true, nil)
		s.adopt(note(t))
		s.say("w", &wire.Session{})
		s.post(0, pages(host, 5)...)
		if g := s.lease("w", host, 2); len(g.GetUrl()) != 2 {
			t.Errorf("granted %v", g)
		}
	})
}

// TestImportUntil: a record that names a worker keeps the host from others as long as its lease may
// be alive, and no longer.
func TestImportUntil(t *testing.T) {
	for _, tt := range []struct {
		name  string
		until time.Duration // from the import; 0: not said
		waits time.Duration
	}{
		{"not said", 0, 8 * time.Second},
		{"three seconds", 3 * time.Second, 3 * time.Second},
		{"over already", -time.Second, 0},
		{"never longer than a TTL", time.Hour, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := newArcScene(t, "self", true, nil)
			a.post(0, pages(host, 20)...)
			a.lease("w", host, 6)
			b, _ := newArcScene(t, "next", true, nil)
			b.now = b.now.Add(time.Hour)
			var until time.Time
			if tt.until != 0 {
				until = b.now.Add(tt.until)
			}
			ready := b.do(func(o *owner.Owner) {
				if err := o.ImportUntil(exported(t, a.peer), until); err != nil {
					t.Fatal(err)
				}
			})
			var waited time.Duration
			for len(ready.Places) == 0 && waited < time.Minute {
				waited += 100 * time.Millisecond
				ready = b.wait(100 * time.Millisecond)
			}
			if waited != tt.waits {
				t.Errorf("waited for %v, want %v", waited, tt.waits)
			}
		})
	}
}

// TestImportOfALeaseThatIsOver: a copy may still say that a host is leased when its owner says that
// this lease is over. The owner is right, whoever is heard first.
func TestImportOfALeaseThatIsOver(t *testing.T) {
	a, _ := newArcScene(t, "self", true, nil)
	a.post(0, pages(host, 20)...)
	a.lease("w", host, 6)
	had := copied(a.peer)
	a.wait(8 * time.Second)
	own := exported(t, a.peer)
	for name, order := range map[string][][]kv.Record{"copy first": {had, own}, "copy last": {own, had}} {
		b, _ := newArcScene(t, "next", true, nil)
		b.now = a.now
		for _, kvs := range order {
			b.adopt(kvs, nil)
		}
		if b.places(3*time.Second) == 0 {
			t.Errorf("%s: the host waits for a lease that is over", name)
		}
	}
}

// TestLateReportRenewsNothing: a worker that has dropped a lease, as its time was over, still
// reports what it fetched under it. The host is free as soon as it would have been without.
func TestLateReportRenewsNothing(t *testing.T) {
	s, _ := newArcScene(t, "self", true, nil)
	s.post(0, pages(host, 20)...)
	g := s.lease("w", host, 4)
	s.wait(7 * time.Second)
	s.say("w", &wire.Session{
		Seq: 2, Ack: 1, Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Fetched: []*wire.Fetched{s.got(granted(g)[0], link.OutcomeOK)}}},
	})
	if got := s.owner.Totals(); got.Pages != 1 {
		t.Errorf("the outcome was not taken: %+v", got)
	}
	if s.places(time.Second) == 0 {
		t.Error("the host waits for a worker that has dropped it")
	}
}

// TestAnothersLeaseIsWaitedOutAfterACrash: a record has room for one worker. That it names one of
// the process that crashed must not hide another.
func TestAnothersLeaseIsWaitedOutAfterACrash(t *testing.T) {
	copyOf := func(worker string) []kv.Record {
		s, _ := newArcScene(t, "origin of "+worker, true, nil)
		s.post(0, pages(host, 20)...)
		s.lease(worker, host, 4)
		return copied(s.peer)
	}
	other, own := copyOf("w"), copyOf("next")
	for _, tt := range []struct {
		name   string
		copies [][]kv.Record
	}{
		{"its own worker's last", [][]kv.Record{other, own}},
		{"its own worker's first", [][]kv.Record{own, other}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := newArcScene(t, "next", true, nil)
			for _, kvs := range tt.copies {
				b.adopt(kvs, nil)
			}
			b.open(b.now)
			if n := b.places(7900 * time.Millisecond); n > 0 {
				t.Error("a worker is looked for within another's lease")
			}
			if b.places(time.Second) == 0 {
				t.Error("no worker is looked for after it")
			}
		})
	}
}

// TestAdoptedURLsArePaidFor: what is out under an adopted lease counts among the pages that a host
// may have, also where the URL was met here before.
func TestAdoptedURLsArePaidFor(t *testing.T) {
	few := func(m *wire.JobSpec, _ *owner.Config) { m.MaxPagesPerHost = 4 }
	for _, met := range []bool{false, true} {
		a, _ := newArcScene(t, "self", true, few)
		a.post(0, pages(host, 20)...)
		g := a.lease("w", host, 4)
		b, _ := newArcScene(t, "next", true, few)
		if met {
			b.post(1, pages(host, 20)...)
		}
		handoff(a, b, host)
		reply, _ := b.say("w", &wire.Session{
			Held: []*wire.HostLease{{Host: host, Epoch: g.GetEpoch()}}, Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Want: 4}},
		})
		if len(reply.GetGrants()) != 1 || len(granted(reply.GetGrants()[0])) > 0 {
			t.Errorf("met before %v: beside the four pages that are out: %v", met, reply)
		}
	}
}
