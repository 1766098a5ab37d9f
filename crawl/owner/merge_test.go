package owner_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// mergeWorld are owners that each see a random part of one history.
type mergeWorld struct {
	t    *testing.T
	rng  *rand.Rand
	web  site
	jobs jobTable
	ids  []job.ID
	now  time.Time
	// hosts are those of the web; what else is linked to belongs to others, and lies in the outbox.
	hosts hostSet
}

// hostSet is a ring on which some hosts are this peer's.
type hostSet map[ring.Key]bool

func (s hostSet) Mine(key ring.Key) bool { return s[key] }

func newMergeWorld(t *testing.T, seed uint64) *mergeWorld {
	w := &mergeWorld{t: t, rng: rand.New(rand.NewPCG(seed, 21)), web: site{hosts: 3, pages: 6, links: 3, flaky: true}, jobs: jobTable{}, now: epochStart, hosts: make(hostSet)}
	for h := range w.web.hosts {
		w.hosts[ring.HostKey(link.Host(w.web.url(h, 0)))] = true
	}
	seeds, scope := [][]byte{[]byte(w.web.url(0, 0))}, []string{"*.example"}
	for _, m := range []*wire.JobSpec{
		{HasMaxDepth: true, MaxDepth: 4, Requisites: true}, {MaxPages: 500, MaxPagesPerHost: 40}, {},
	} {
		m.Seeds, m.Scope = seeds, scope
		w.ids = append(w.ids, w.jobs.add(t, m))
	}
	w.jobs[w.ids[1]].refresh, _ = job.ParseRefresh("100/day")
	w.jobs[w.ids[2]].refresh, _ = job.ParseRefresh("1m")
	return w
}

func (w *mergeWorld) owner(self string, jobs jobTable) *scene {
	return &scene{id: w.ids[0], now: w.now, peer: newPeer(w.t, owner.Config{Self: self, Window: 4}, w.hosts, jobs, w.now)}
}

func (w *mergeWorld) anyURL() string {
	return w.web.url(w.rng.IntN(w.web.hosts), w.rng.IntN(w.web.pages))
}

// happens lets an owner meet with something.
func (w *mergeWorld) happens(s *scene) {
	id := w.ids[w.rng.IntN(len(w.ids))]
	url := w.anyURL()
	name := link.Host(url)
	switch w.rng.IntN(8) {
	case 0, 1, 2:
		m := links(id, uint32(w.rng.IntN(5)), url)
		m.Kind, m.Hops = []byte{byte(link.KindRequisite) * byte(w.rng.IntN(2))}, []byte{byte(w.rng.IntN(3))}
		if w.rng.IntN(3) > 0 {
			m.Sources, m.Source = []*wire.Source{{Url: []byte(w.anyURL()), Path: []byte("LLLL")[:w.rng.IntN(5)], Seed: []byte(w.web.url(0, 0))}}, []uint32{1}
		}
		s.do(func(o *owner.Owner) { o.Links(m) })
	case 3, 4:
		got := w.web.answer(id, url, uint32(w.rng.IntN(2)))
		got.FetchedMs, got.Depth = w.now.UnixMilli(), uint32(w.rng.IntN(5))
		if w.rng.IntN(3) == 0 {
			got = s.got(url, link.OutcomeConnect)
			got.Job = id[:]
		}
		if link.Outcome(got.GetOutcome()).Fetched() && w.rng.IntN(3) > 0 {
			got.RecordId = fmt.Appendf(nil, "%016x", w.rng.Uint64())
			got.Links = append(got.Links, []byte(w.anyURL()), fmt.Appendf(nil, "http://other%d.example/", w.rng.IntN(9)))
		}
		if link.Outcome(got.GetOutcome()).Fetched() && w.rng.IntN(2) == 0 {
			got.Again, got.Content, got.Digest = true, w.rng.Uint64N(3), fmt.Appendf(nil, "%032x", w.rng.IntN(3))
		}
		s.tell("w", name, &wire.Epoch{}, got)
	case 5:
		s.placed(s.do(nil), "w")
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: name, Want: 2}}})
	case 6:
		state := robots.FromFetch(robots.Answer{Status: http.StatusOK, Body: []byte("x")}, w.now, nil)
		state.Delay = time.Duration(w.rng.IntN(5)) * time.Second
		raw, err := state.MarshalBinary()
		if err != nil {
			w.t.Fatal(err)
		}
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{
			Host: name, Robots: []*wire.Robots{{Origin: "http://" + name, State: raw}}, Addrs: [][]byte{{192, 0, 2, byte(w.rng.IntN(9))}},
			Fetched: []*wire.Fetched{{Job: id[:], Url: []byte(url)}},
		}}})
	default:
		w.now = w.now.Add(time.Duration(w.rng.IntN(9000)) * time.Millisecond)
	}
}

// merged imports copies into an owner, in one step, and says what it then knows.
func merged(t *testing.T, s *scene, copies [][]kv.Record) map[string]string {
	t.Helper()
	all := make(map[string]string)
	s.do(func(o *owner.Owner) {
		for _, kvs := range copies {
			if err := o.Import(kvs); err != nil {
				t.Fatal(err)
			}
		}
		for _, rec := range exported(t, s.peer) {
			name, text, err := owner.Canonical(rec.Key, rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name != "" {
				all[name] = text
			}
		}
	})
	return all
}

// TestMergeOrderDoesNotMatter (design, section 4, invariant 4): copies of what three owners came to
// know of the same hosts, some of them stale, come to the same records in whatever order they are
// merged, however often each, also where the merging owner had met the hosts itself, and whether or
// not it knows the jobs. Every merge passes Check, so accepted URLs are those pending, leased and
// done.
func TestMergeOrderDoesNotMatter(t *testing.T) {
	for seed := range draws(30) {
		w := newMergeWorld(t, seed)
		owners := []*scene{w.owner("a", w.jobs), w.owner("b", w.jobs), w.owner("c", w.jobs)}
		var copies, bare [][]kv.Record // each as its owner has it, and as a follower does
		add := func(s *scene) { copies, bare = append(copies, exported(t, s.peer)), append(bare, copied(s.peer)) }
		for range 120 {
			s := owners[w.rng.IntN(len(owners))]
			s.now = w.now
			w.happens(s)
			if w.rng.IntN(30) == 0 {
				add(s) // this one will be stale
			}
		}
		for _, s := range owners {
			s.now = w.now
			s.do(nil)
			add(s)
		}
		var want map[string]string
		for trial := range 6 {
			order := slices.Concat(w.rng.Perm(len(copies)), w.rng.Perm(len(copies))[:w.rng.IntN(len(copies))])
			var list [][]kv.Record
			for _, i := range order {
				list = append(list, [][][]kv.Record{copies, bare}[w.rng.IntN(2)][i])
			}
			jobs := maps.Clone(w.jobs)
			if trial%2 == 1 {
				delete(jobs, w.ids[w.rng.IntN(len(w.ids))])
			}
			into := w.owner("d", jobs)
			if trial == 5 {
				into = owners[0]
			}
			got := merged(t, into, list)
			if want == nil {
				want = got
			}
			for name := range maps.Keys(union(got, want)) {
				if got[name] != want[name] {
					t.Errorf("seed %d, trial %d, order %v: %s\nis   %s\nwant %s", seed, trial, order, name, got[name], want[name])
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
