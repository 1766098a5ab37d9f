package owner_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// exported are all records of an owner's hosts.
func exported(t testing.TB, p *peer) (kvs []kv.Record) {
	t.Helper()
	if err := p.owner.Export(ring.Pos{}, ring.Pos{}, func(key, value []byte) bool {
		kvs = append(kvs, kv.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return kvs
}

// copied is what a follower has of all hosts.
func copied(p *peer) (kvs []kv.Record) {
	p.t.Helper()
	p.copied(func(key, value []byte) { kvs = append(kvs, kv.Record{Key: key, Value: value}) })
	return kvs
}

// books are what must be the same wherever records were merged: every URL with its state, depth and
// outcome.
func books(t testing.TB, s *scene, urls []string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, url := range urls {
		f := s.fate(url)
		state := f.State
		if state == "leased" {
			state = "pending"
		}
		all[url] = fmt.Sprint(state, " ", f.Final.Depth, " ", f.Final.Outcome)
	}
	return all
}

// TestImportIsUnion lets two owners work on the same hosts apart, and merges them both ways, twice
// and in random order of hosts: both come to the same books, which lose nothing of either.
func TestImportIsUnion(t *testing.T) {
	web := site{hosts: 4, pages: 10, links: 3, flaky: true}
	var urls []string
	for h := range web.hosts {
		for p := range web.pages {
			urls = append(urls, web.url(h, p))
		}
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		deep := func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 4 }
		a, b := newScene(t, deep), newScene(t, deep)
		for _, s := range []*scene{a, b} {
			for range 12 {
				s.post(uint32(rng.IntN(4)), urls[rng.IntN(len(urls))])
				url := urls[rng.IntN(len(urls))]
				if f := s.fate(url); f.State == "pending" {
					got := web.answer(s.id, url, uint32(rng.IntN(2)))
					got.FetchedMs, got.Depth = s.now.UnixMilli(), f.Final.Depth
					s.tell("w", link.Host(url), &wire.Epoch{}, got)
				}
			}
			s.placed(s.do(nil), "w")
			s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: link.Host(urls[0]), Want: 2}}})
		}
		before := books(t, a, urls)
		fromA, fromB := exported(t, a.peer), copied(b.peer)
		for range 2 {
			for _, m := range []struct {
				to  *scene
				kvs []kv.Record
			}{{a, fromB}, {b, fromA}} {
				m.to.do(func(o *owner.Owner) {
					if err := o.Import(m.kvs); err != nil {
						t.Fatal(err)
					}
				})
			}
			fromA, fromB = exported(t, a.peer), exported(t, b.peer)
		}
		gotA, gotB := books(t, a, urls), books(t, b, urls)
		for _, url := range urls {
			if gotA[url] != gotB[url] {
				t.Errorf("seed %d: %s is %s here and %s there", seed, url, gotA[url], gotB[url])
			}
			if before[url] != "unknown 0 none" && gotA[url] == "unknown 0 none" {
				t.Errorf("seed %d: %s was %s and is lost", seed, url, before[url])
			}
		}
	}
}

// TestMoveHosts hands everything from one owner to another in mid-crawl.
func TestMoveHosts(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 20)...)
	s.post(0, pages("b.example", 5)...)
	g := s.lease("w", "a.example", 4)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK, "http://a.example/new"))
	next := newScene(t, nil)
	next.do(func(o *owner.Owner) {
		if err := o.Import(exported(t, s.peer)); err != nil {
			t.Fatal(err)
		}
	})
	s.do(func(o *owner.Owner) { o.Remove(ring.Pos{}, ring.Pos{}) })
	if got := s.owner.Totals(); got != (owner.Totals{}) || len(exported(t, s.peer)) > 0 {
		t.Errorf("the old owner still has %+v", got)
	}
	if got := next.owner.Totals(); got.URLsSeen != 26 || got.Pages != 1 || got.HostsOwned != 2 {
		t.Errorf("the new owner has %+v", got)
	}
	if ready := next.do(nil); len(ready.Places) > 0 && ready.Places[0].Host == "a.example" {
		t.Error("the new owner looks for a worker while the old one's lease may go on")
	}
	next.now = next.now.Add(next.wait(0).Next.Sub(next.now))
	next.tell("w", "a.example", g.GetEpoch(), next.got(granted(g)[1], link.OutcomeOK))
	if got := next.owner.Totals().Pages; got != 2 {
		t.Errorf("a report under the old owner's lease: %d pages", got)
	}
	if d, _ := next.owner.Host("a.example"); d.Epoch.Counter != g.GetEpoch().GetCounter() {
		t.Errorf("epoch %v after %v", d.Epoch, g.GetEpoch())
	}
}

// FuzzImport: whatever a peer sends is refused, or leaves books that add up.
func FuzzImport(f *testing.F) {
	s := newScene(f, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 3 })
	s.post(1, pages("a.example", 4)...)
	g := s.lease("w", "a.example", 2)
	busy := s.got(granted(g)[1], link.OutcomeHTTPError)
	busy.Status = 503
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK, "http://b.example/"), busy)
	s.do(func(o *owner.Owner) { o.Links(links(s.id, 0, granted(g)[0])) })
	seeds := append(exported(f, s.peer), copied(s.peer)...)
	for _, rec := range seeds {
		f.Add(rec.Key, rec.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		to := newScene(t, nil)
		to.check = false
		to.post(0, "http://a.example/0")
		to.do(func(o *owner.Owner) { _ = o.Import([]kv.Record{{Key: key, Value: value}}) })
		for _, rec := range seeds {
			if bytes.Equal(rec.Key, key) {
				to.do(func(o *owner.Owner) { _ = o.Import([]kv.Record{{Key: key, Value: value}}) })
			}
		}
		if err := ownertest.Check(to.owner); err != nil {
			t.Error(err)
		}
	})
}

func TestImportRefuses(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/", "http://b.example/")
	kvs := exported(t, s.peer)
	wrong := []kv.Record{
		{Key: []byte("x"), Value: nil},
		{Key: append(bytes.Clone(kvs[0].Key[:5]), kvs[len(kvs)-1].Key[5:]...), Value: kvs[0].Value},
		{Key: kvs[0].Key, Value: kvs[len(kvs)-1].Value},
		{Key: append(bytes.Clone(kvs[0].Key[:17]), 'z', 1), Value: nil},
		{Key: append(append(bytes.Clone(kvs[0].Key[:17]), 'z'), make([]byte, job.IDSize)...), Value: nil},
	}
	for _, rec := range wrong {
		s.do(func(o *owner.Owner) {
			if o.Import([]kv.Record{rec}) == nil {
				t.Errorf("key %x is taken", rec.Key)
			}
		})
	}
}

// TestReopen: a URL whose page is lost is pending again, and the counters match.
func TestReopen(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 3)...)
	g := s.lease("w", "a.example", 3)
	done, url := s.got(granted(g)[0], link.OutcomeOK), granted(g)[0]
	s.tell("w", "a.example", g.GetEpoch(), done, s.got(granted(g)[1], link.OutcomeOK), s.got(granted(g)[2], link.OutcomeOK))
	for _, want := range []bool{true, false} {
		s.do(func(o *owner.Owner) {
			if got := o.Reopen(s.id, url); got != want {
				t.Errorf("reopened: %v, want %v", got, want)
			}
			if o.Reopen(s.id, "http://unknown.example/") || o.Reopen(s.id, "http://a.example/unknown") {
				t.Error("an unknown URL was reopened")
			}
		})
	}
	if got := s.owner.Totals(); got.Pages != 2 || got.URLsSeen != 3 {
		t.Errorf("%+v", got)
	}
	if f := s.fate(url); f.State == "done" || f.State == "unknown" {
		t.Errorf("%s is %s", url, f.State)
	}
}
