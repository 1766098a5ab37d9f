package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

var someJob = job.NewID()

// walkWorld is a ring of reports, in ring order. Visit is called before each report.
type walkWorld struct {
	ids     []peer.ID
	members map[peer.ID]*report
	visit   func(step int, of peer.ID)
	steps   int
}

func newWalkWorld(t *testing.T, n int) *walkWorld {
	t.Helper()
	w := &walkWorld{ids: rpctest.NewPeers(t, n), members: make(map[peer.ID]*report)}
	slices.SortFunc(w.ids, func(a, b peer.ID) int { return ring.PeerKey([]byte(a)).Compare(ring.PeerKey([]byte(b))) })
	for i, id := range w.ids {
		pred, succ := w.ids[(i+n-1)%n], w.ids[(i+1)%n]
		m := &report{Taken: make(map[string]uint64)}
		m.Peer, m.Incarnation, m.State, m.Position = id.String(), 1, StateIdle, ring.PeerKey([]byte(id)).Hex()
		m.Ring.Arc = [2]string{ring.PeerKey([]byte(pred)).Hex(), m.Position}
		m.Successor = succ.String()
		m.Jobs = []control.JobCounts{{Job: someJob.String(), Accepted: 10, Done: 10}}
		w.members[id] = m
	}
	return w
}

var errGone = errors.New("gone")

func (w *walkWorld) walker() *walker {
	return &walker{self: w.ids[0], start: func() peer.ID { return w.ids[0] }, met: func(peer.ID, []string) {}, report: func(_ context.Context, of peer.ID, _ time.Duration) (*report, error) {
		w.steps++
		if w.visit != nil {
			w.visit(w.steps, of)
		}
		m := w.members[of]
		if m == nil {
			return nil, errGone
		}
		raw, err := encodeReport(m)
		if err != nil {
			return nil, err
		}
		return decodeReport(raw, of)
	}}
}

// add changes the counts of a member's job and of the member alike.
func (w *walkWorld) add(i int, change func(*control.JobCounts)) {
	m := w.members[w.ids[i]]
	change(&m.Jobs[0])
	m.URLsPending, m.URLsLeased, m.Outbox = m.Jobs[0].Pending, m.Jobs[0].Leased, m.Jobs[0].Outbox
}

func (w *walkWorld) take(i int, what string) { w.members[w.ids[i]].Taken[what]++ }

// TestWalk: what a walk says of rings in good and in bad order.
func TestWalk(t *testing.T) {
	for _, row := range []struct {
		name   string
		peers  int
		damage func(w *walkWorld)
		met    int
		says   string // empty: closed
	}{
		{"alone", 1, nil, 1, ""},
		{"two", 2, nil, 2, ""},
		{"five", 5, nil, 5, ""},
		{"one is dead", 5, func(w *walkWorld) { delete(w.members, w.ids[2]) }, 2, "did not respond"},
		{"this one does not answer", 1, func(w *walkWorld) { delete(w.members, w.ids[0]) }, 0, "did not respond"},
		{"one joins", 3, func(w *walkWorld) { w.members[w.ids[1]].State = StateJoining }, 3, "is joining"},
		{"one leaves", 3, func(w *walkWorld) { w.members[w.ids[1]].State = StateLeaving }, 3, "is leaving"},
		{"a gap", 4, func(w *walkWorld) { w.members[w.ids[2]].Ring.Arc[0] = strings.Repeat("7", 64) }, 4, "begins at"},
		{"an arc that ends elsewhere", 4, func(w *walkWorld) { w.members[w.ids[2]].Ring.Arc[1] = strings.Repeat("7", 64) }, 4, "begins at"},
		{"no arc", 2, func(w *walkWorld) { w.members[w.ids[1]].Ring.Arc = [2]string{} }, 2, "begins at"},
		{"one is left out", 4, func(w *walkWorld) { w.members[w.ids[1]].Successor = w.ids[3].String() }, 3, "begins at"},
		{"a loop without this one", 4, func(w *walkWorld) { w.members[w.ids[3]].Successor = w.ids[1].String() }, 4, "instead of its start"},
		{"no successor", 3, func(w *walkWorld) { w.members[w.ids[1]].Successor = "" }, 2, "no valid successor"},
		{"another's report", 3, func(w *walkWorld) { w.members[w.ids[1]].Peer = w.ids[2].String() }, 1, "names another peer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWalkWorld(t, row.peers)
			if row.damage != nil {
				row.damage(w)
			}
			r, err := w.walker().walk(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Members) != row.met || r.Closed != (row.says == "") || !strings.Contains(r.Error, row.says) {
				t.Errorf("%d members, closed %v, %q; want %d, %q", len(r.Members), r.Closed, r.Error, row.met, row.says)
			}
		})
	}
}

// TestWalkAsksAhead: members that are known are asked at the same time, so a ring of 40 takes a few
// round trips; one that is known and no member any more is not waited for.
func TestWalkAsksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers, way = 40, 100 * time.Millisecond
		w := newWalkWorld(t, peers+1)
		gone := w.ids[peers/2]
		before, behind := w.members[w.ids[peers/2-1]], w.members[w.ids[peers/2+1]]
		before.Successor, behind.Ring.Arc[0] = behind.Peer, before.Position
		delete(w.members, gone)
		walker := w.walker()
		answer := walker.report
		var mu sync.Mutex // of the world
		walker.report = func(ctx context.Context, of peer.ID, patience time.Duration) (*report, error) {
			if of == gone {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(way)
			mu.Lock()
			defer mu.Unlock()
			return answer(ctx, of, patience)
		}
		walker.known = func() []peer.ID { return w.ids[1:] }
		begun := time.Now()
		r, err := walker.walk(t.Context())
		if err != nil || !r.Closed || len(r.Members) != peers {
			t.Fatalf("%d members, %q, %v", len(r.Members), r.Error, err)
		}
		if took := time.Since(begun); took > 6*way {
			t.Errorf("a walk took %v", took)
		}
	})
}

// TestSilence checks the reason why a member did not respond.
func TestSilence(t *testing.T) {
	for want, err := range map[string]error{
		"no way leads there": fmt.Errorf("call: %w", calls.Unreachable("a", errors.New("no way leads there"))),
		"something else":     errors.New("something else"),
		"timeout after 5s":   fmt.Errorf("call: %w", context.DeadlineExceeded),
	} {
		if text := silence(err); !strings.HasPrefix(text, want) {
			t.Errorf("%v: %s, want %s", err, text, want)
		}
	}
}

// TestIdleNeverEarly: the double walk waits for work wherever it hides: each row moves work around
// while the walk is under way, and says from which report on the ring is truly idle.
func TestIdleNeverEarly(t *testing.T) {
	moved := job.ID{}.String()
	this := someJob.String()
	for _, row := range []struct {
		name  string
		setup func(w *walkWorld)
		visit func(w *walkWorld, step int) // before the given report; three members, so steps 1-3 are the first walk
		done  int                          // the step from which on nothing is outstanding
	}{
		{name: "idle from the start"},
		{
			name:  "pending until the third walk",
			setup: func(w *walkWorld) { w.add(1, func(c *control.JobCounts) { c.Accepted, c.Pending = 11, 1 }) },
			visit: func(w *walkWorld, step int) {
				if step == 7 {
					w.add(1, func(c *control.JobCounts) { c.Done, c.Pending = 11, 0 })
				}
			}, done: 7,
		},
		{
			name: "a link goes from where the walk is still to come to where it has been",
			setup: func(w *walkWorld) {
				w.add(2, func(c *control.JobCounts) { c.Outbox = 1 })
			},
			visit: func(w *walkWorld, step int) {
				switch step {
				case 3: // 0 and 1 were visited
					w.add(2, func(c *control.JobCounts) { c.Outbox = 0 })
					w.add(0, func(c *control.JobCounts) { c.Accepted, c.Pending = 11, 1 })
					w.take(0, this)
				case 9:
					w.add(0, func(c *control.JobCounts) { c.Done, c.Pending = 11, 0 })
				}
			}, done: 9,
		},
		{
			name: "a smaller depth: links are emitted anew though nothing was accepted",
			setup: func(w *walkWorld) {
				w.add(2, func(c *control.JobCounts) { c.Outbox = 1 })
			},
			visit: func(w *walkWorld, step int) {
				switch step {
				case 3: // 2 tells 1, which was visited, of a smaller depth
					w.add(2, func(c *control.JobCounts) { c.Outbox = 0 })
					w.take(1, this)
					w.add(1, func(c *control.JobCounts) { c.Outbox = 5 })
				case 5: // 0 was visited again; 1 sends there what is new to it
					w.add(1, func(c *control.JobCounts) { c.Outbox = 0 })
					w.take(0, this)
					w.add(0, func(c *control.JobCounts) { c.Accepted, c.Pending = 15, 5 })
				case 11:
					w.add(0, func(c *control.JobCounts) { c.Done, c.Pending = 15, 0 })
				}
			}, done: 11,
		},
		{
			name: "a host moves, and is counted at one of two at least",
			setup: func(w *walkWorld) {
				w.add(2, func(c *control.JobCounts) { c.Accepted, c.Pending = 14, 4 })
			},
			visit: func(w *walkWorld, step int) {
				switch step {
				case 3:
					w.add(0, func(c *control.JobCounts) { c.Accepted, c.Pending = 14, 4 })
					w.take(0, moved)
					w.add(2, func(c *control.JobCounts) { c.Accepted, c.Pending = 10, 0 })
					w.take(2, moved)
				case 10:
					w.add(0, func(c *control.JobCounts) { c.Done, c.Pending = 14, 0 })
				}
			}, done: 10,
		},
		{
			name: "a member restarts between the walks, with work again",
			visit: func(w *walkWorld, step int) {
				m := w.members[w.ids[1]]
				switch step {
				case 4:
					m.Incarnation++
				case 7:
					w.add(1, func(c *control.JobCounts) { c.Done, c.Pending = 9, 1 })
				case 12:
					w.add(1, func(c *control.JobCounts) { c.Done, c.Pending = 10, 0 })
				}
			}, done: 12,
		},
		{
			name: "a member dies between the walks",
			visit: func(w *walkWorld, step int) {
				switch step {
				case 4:
					w.members[w.ids[1]].State = StateJoining
				case 13:
					w.members[w.ids[1]].State = StateIdle
				}
			}, done: 13,
		},
	} {
		for _, of := range []string{"", this} {
			t.Run(row.name+", job "+of, func(t *testing.T) {
				crawltest.Bubble(t, func(t *testing.T) {
					w := newWalkWorld(t, 3)
					if row.setup != nil {
						row.setup(w)
					}
					w.visit = func(step int, _ peer.ID) {
						if row.visit != nil {
							row.visit(w, step)
						}
					}
					idle := 0
					err := w.walker().waitIdle(t.Context(), of, func(p control.Progress) error {
						if p.Idle {
							idle++
						}
						return nil
					})
					if err != nil || idle != 1 {
						t.Fatalf("wait: %v, idle was told %d times", err, idle)
					}
					if w.steps < row.done+3 || w.steps < 6 {
						t.Errorf("idle after %d reports; work ended before report %d", w.steps, row.done)
					}
				})
			})
		}
	}
}

// TestIdleOfOneJob: another job's work does not hold up the wait for this one, nor do the links of
// that job.
func TestIdleOfOneJob(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newWalkWorld(t, 2)
		other := job.NewID().String()
		m := w.members[w.ids[1]]
		m.Jobs = append(m.Jobs, control.JobCounts{Job: other, Accepted: 5, Pending: 5})
		m.URLsPending = 5
		w.visit = func(int, peer.ID) { w.take(1, other) }
		if err := w.walker().waitIdle(t.Context(), someJob.String(), func(control.Progress) error { return nil }); err != nil || w.steps != 4 {
			t.Errorf("%v after %d reports, want 4", err, w.steps)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := w.walker().waitIdle(ctx, "", func(control.Progress) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait for all jobs ended with %v", err)
		}
	})
}

// TestWaitEnds: a wait ends with its context, and when nobody listens any more.
func TestWaitEnds(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newWalkWorld(t, 2)
		delete(w.members, w.ids[1])
		if err := w.walker().waitIdle(t.Context(), "", func(control.Progress) error { return errGone }); !errors.Is(err, errGone) {
			t.Errorf("nobody listens: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		notes := 0
		err := w.walker().waitIdle(ctx, "", func(p control.Progress) error {
			if p.Idle || p.Note == "" {
				return fmt.Errorf("progress %+v", p)
			}
			notes++
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || notes < 30 || notes > 60 {
			t.Errorf("%v after %d walks of a minute", err, notes)
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"peer":"x","jobs":[{"job":"a","accepted":1}],"taken":{"a":1}}`))
	f.Add([]byte(`{"ring":{"arc":["",""]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeReport(raw, "x")
		if err != nil {
			return
		}
		_ = gap([]control.Member{m.Member})
		if s, _ := quiet([]control.Member{m.Member}, []map[string]uint64{m.Taken}, ""); len(s) != 1 {
			t.Errorf("signature %v", s)
		}
	})
}

// TestWalkTellsWhereWorkersAre: who walks learns where the workers of the members are relayed to,
// as it cannot dial them.
func TestWalkTellsWhereWorkersAre(t *testing.T) {
	world := newWalkWorld(t, 3)
	workers := rpctest.NewPeers(t, 2)
	const at = "/ip4/5.0.0.11/tcp/4001/p2p-circuit"
	m := world.members[world.ids[1]]
	m.Attached = []string{workers[0].String(), workers[1].String(), "no peer"}
	m.AttachedAddrs = map[string][]string{workers[0].String(): {at}, "no peer": {at}, world.ids[0].String(): {at}}
	met := map[peer.ID][]string{}
	w := world.walker()
	w.met = func(id peer.ID, addrs []string) {
		if len(addrs) > 0 {
			met[id] = addrs
		}
	}
	if r, err := w.walk(t.Context()); err != nil || !r.Closed {
		t.Fatalf("%v, %v", r, err)
	}
	if len(met) != 1 || !slices.Equal(met[workers[0]], []string{at}) {
		t.Errorf("met %v", met)
	}
}

// TestReachableMemberIsNoWorker: who became a member is not listed as a worker by the one that it
// was attached to.
func TestReachableMemberIsNoWorker(t *testing.T) {
	members := []control.Member{{Status: control.Status{Peer: "a"}, Attached: []string{"b", "c"}}, {Status: control.Status{Peer: "b"}}}
	if withoutMembers(members); len(members[0].Attached) != 1 || members[0].Attached[0] != "c" {
		t.Errorf("attached: %v, want c alone", members[0].Attached)
	}
}

// TestNoindexIsNoError: the counts of a job keep noindex apart from errors.
func TestNoindexIsNoError(t *testing.T) {
	m := control.Member{Jobs: []control.JobCounts{{Job: someJob.String(), Outcomes: map[string]int64{"noindex": 7, "dns": 2, "ok": 1}}}}
	if c := ofJob(control.Counters{}, []control.Member{m}, someJob.String()); c.Errors != 2 || c.NoIndex != 7 || c.Pages != 1 || link.OutcomeNoIndex.IsError() {
		t.Errorf("%+v", c)
	}
}
