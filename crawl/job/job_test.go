package job_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

func TestScope(t *testing.T) {
	tests := []struct {
		patterns []string
		host     string
		want     bool
	}{
		{[]string{"a.example"}, "a.example", true},
		{[]string{"a.example"}, "b.a.example", false},
		{[]string{"A.Example"}, "a.example", true},
		{[]string{"a.example"}, "a.example:8080", true},
		{[]string{"a.example:8080"}, "a.example:8080", true},
		{[]string{"a.example:8080"}, "a.example", false},
		{[]string{"a.example:8080"}, "a.example:8081", false},
		{[]string{"a.example:80"}, "a.example", true},
		{[]string{"a.example:443"}, "a.example", true},
		{[]string{"*.a.example"}, "b.a.example", true},
		{[]string{"*.a.example"}, "c.b.a.example:81", true},
		{[]string{"*.a.example"}, "a.example", false},
		{[]string{"*.a.example"}, "ba.example", false},
		{[]string{"www*.example"}, "www2.example", true},
		{[]string{"www?.example"}, "www.example", false},
		{[]string{"www?.example"}, "www1.example:8080", true},
		{[]string{"*"}, "anything", true},
		{[]string{"127.0.0.*"}, "127.0.0.1:9000", true},
		{[]string{"[::1]"}, "[::1]:9000", true},
		{[]string{"bücher.example"}, "xn--bcher-kva.example", true},
		{[]string{"a.example", "b.example"}, "b.example", true},
		{[]string{"a*b*c"}, "a-b-b-c", true},
		{[]string{"a*b*c"}, "a-b-b-d", false},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.patterns, " ", test.host), func(t *testing.T) {
			scope, err := job.NewScope(test.patterns)
			if err != nil {
				t.Fatal(err)
			}
			if got := scope.Admits(test.host); got != test.want {
				t.Errorf("Admits = %v, want %v", got, test.want)
			}
		})
	}
	for _, bad := range []string{"", "http://a.example/", "a b", "user@a.example", "*.a..b"} {
		if _, err := job.NewScope([]string{bad}); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
}

func spec(change func(*wire.JobSpec)) *wire.JobSpec {
	id := job.NewID()
	m := &wire.JobSpec{Id: id[:], Seeds: [][]byte{[]byte("http://A.example:80/x")}, CreatedMs: 1}
	change(m)
	return m
}

func TestSpec(t *testing.T) {
	s, err := job.FromWire(spec(func(m *wire.JobSpec) {
		m.Seeds = append(m.Seeds, []byte("http://a.example/x"), []byte("https://b.example"))
		m.HasMaxDepth, m.MaxDepth = true, 3
	}))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.Seeds) != "[http://a.example/x https://b.example/]" {
		t.Errorf("seeds %v", s.Seeds)
	}
	if !s.InScope("b.example") || s.InScope("c.example") || !s.AdmitsDepth("b.example", 3) || s.AdmitsDepth("b.example", 4) || s.Retries != job.DefaultRetries || s.Budgeted() {
		t.Errorf("spec is %+v", s)
	}
	again, err := job.FromWire(s.Wire())
	if err != nil || !proto.Equal(again.Wire(), s.Wire()) {
		t.Errorf("spec changes on its way: %v, %v", again, err)
	}
	none, err := job.FromWire(spec(func(m *wire.JobSpec) { m.NoRetries = true }))
	if err != nil || none.Retries != 0 || !none.Wire().GetNoRetries() {
		t.Errorf("without retries: %+v, %v", none, err)
	}
	for name, change := range map[string]func(*wire.JobSpec){
		"no seeds":  func(m *wire.JobSpec) { m.Seeds = nil },
		"bad seed":  func(m *wire.JobSpec) { m.Seeds = [][]byte{[]byte("mailto:x@a.example")} },
		"bad scope": func(m *wire.JobSpec) { m.Scope = []string{"a b"} },
		"retries":   func(m *wire.JobSpec) { m.Retries = job.MaxRetries + 1 },
		"short ID":  func(m *wire.JobSpec) { m.Id = []byte{1} },
		"too much": func(m *wire.JobSpec) {
			for i := range 400 {
				m.Seeds = append(m.Seeds, fmt.Appendf(nil, "http://a.example/%d/%s", i, strings.Repeat("x", 6000)))
			}
		},
	} {
		if _, err := job.FromWire(spec(change)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestID(t *testing.T) {
	id := job.NewID()
	if got, err := job.ParseID(id.String()); err != nil || got != id {
		t.Errorf("ParseID: %v, %v", got, err)
	}
	for _, bad := range []string{"", "zz", id.String() + "00", id.String()[1:]} {
		if _, err := job.ParseID(bad); err == nil {
			t.Errorf("%q is taken for an ID", bad)
		}
	}
}

func posted(t *testing.T, store kv.Store, change func(*wire.JobSpec)) (*job.Registry, *job.Spec) {
	t.Helper()
	s, err := job.FromWire(spec(change))
	if err != nil {
		t.Fatal(err)
	}
	r := job.NewRegistry(store)
	if _, wait, err := r.Post(1, s); err != nil || wait() != nil {
		t.Fatal(err)
	}
	return r, s
}

func TestRegistry(t *testing.T) {
	r, s := posted(t, crawltest.NewStore(), func(*wire.JobSpec) {})
	if _, _, err := r.Post(2, s); err != nil {
		t.Errorf("posting again: %v", err)
	}
	other, err := job.FromWire(spec(func(m *wire.JobSpec) { m.Id = s.ID[:] }))
	if err != nil {
		t.Fatal(err)
	}
	other.MaxPages = 9
	if _, _, err := r.Post(2, other); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another spec under the ID: %v", err)
	}
	if _, err := r.Get(job.NewID()); !errors.Is(err, job.ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	for _, step := range []struct {
		state   job.State
		version uint64
		err     error
	}{
		{job.StatePaused, 2, nil},
		{job.StatePaused, 2, nil},
		{job.StateRunning, 3, nil},
		{job.StateDone, 4, nil},
		{job.StateCanceled, 5, nil},
		{job.StateRunning, 0, job.ErrFinal},
	} {
		rec, _, err := r.SetState(3, s.ID, job.Standing{State: step.state})
		if !errors.Is(err, step.err) || err == nil && (rec.GetVersion() != step.version || job.State(rec.GetState()) != step.state) {
			t.Errorf("to %v: %v, %v", step.state, rec, err)
		}
	}
	if _, err := r.SeedsSent(4, s.ID, 1); err != nil {
		t.Fatal(err)
	}
	list, err := r.List(job.ID{}, 1<<20)
	if err != nil || len(list) != 1 || list[0].GetSeedsSent() != 1 || !proto.Equal(list[0].GetSpec(), s.Wire()) {
		t.Errorf("list: %v, %v", list, err)
	}
}

// TestLastVersion: a job whose version a stranger has set as high as it goes can still be paused
// and canceled, and what it says is taken by others.
func TestLastVersion(t *testing.T) {
	r, s := posted(t, crawltest.NewStore(), func(*wire.JobSpec) {})
	last := job.Standing{State: job.StateRunning, Version: 1 << 48}
	if _, _, err := r.Restore(2, s, last); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Restore(2, s, job.Standing{State: job.StateRunning, Version: 1<<48 + 1}); err == nil {
		t.Error("a version beyond the last is taken")
	}
	for _, state := range []job.State{job.StatePaused, job.StateCanceled} {
		if _, _, err := r.SetState(3, s.ID, job.Standing{State: state}); err != nil {
			t.Fatal(err)
		}
		got, err := r.Standing(s.ID)
		if err != nil || got.Validate() != nil || last.Merge(got).State != state {
			t.Errorf("%v: %+v, %v", state, got, err)
		}
		last = got
	}
}

// TestDrawIsRepeatable loses, repeats and reorders draws and crashes the registry, and never hands
// out more than there is; in the end every part of the budget that nobody lost is used.
func TestDrawIsRepeatable(t *testing.T) {
	const budget = 100
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		store := crawltest.NewStore()
		r, s := posted(t, store, func(m *wire.JobSpec) { m.MaxPages = budget })
		type peer struct{ drawn, returned, used uint64 }
		peers := make([]peer, 4)
		var old []*wire.Draw
		var from []int
		var now int64
		exhausted := false
		for round := 0; !exhausted; round++ {
			if round > 5000 {
				t.Fatalf("seed %d: the budget does not end: %+v", seed, peers)
			}
			now += 100
			i := rng.IntN(len(peers))
			p := &peers[i]
			if free := p.drawn - p.returned - p.used; free > 0 {
				if n := rng.Uint64N(free + 1); rng.IntN(3) == 0 {
					p.returned += n
				} else {
					p.used += n
				}
			}
			d := &wire.Draw{Pages: rng.Uint64N(9), DrawnPages: p.drawn, ReturnPages: p.returned, UsedPages: p.used}
			if len(old) > 0 && rng.IntN(4) == 0 {
				k := rng.IntN(len(old)) // an old one arrives (again)
				if _, _, err := r.Draw(now, s.ID, []byte{byte(from[k])}, old[k]); err != nil {
					t.Fatal(err)
				}
			}
			old, from = append(old, d), append(from, i)
			reply, wait, err := r.Draw(now, s.ID, []byte{byte(i)}, d)
			if err != nil {
				t.Fatal(err)
			}
			if rng.IntN(10) == 0 {
				store = store.Crash(rng)
				r = job.NewRegistry(store)
				continue
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(4) > 0 {
				p.drawn = max(p.drawn, reply.GetPages())
				exhausted = reply.GetExhausted()
			}
			var out, used uint64
			for _, p := range peers {
				out += p.drawn - p.returned
				used += p.used
			}
			if out > budget {
				t.Fatalf("seed %d: %d pages are out or used, of %d", seed, out, budget)
			}
			if exhausted && used != budget {
				t.Fatalf("seed %d: said to be used up at %d of %d", seed, used, budget)
			}
		}
	}
}

// TestDrawSilentPeer: what a peer drew that is gone is lost, and does not hold up the end.
func TestDrawSilentPeer(t *testing.T) {
	r, s := posted(t, crawltest.NewStore(), func(m *wire.JobSpec) { m.MaxBytes = 1000 })
	draw := func(now int64, peer string, d *wire.Draw) *wire.JobReply {
		reply, _, err := r.Draw(now, s.ID, []byte(peer), d)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if got := draw(0, "gone", &wire.Draw{Bytes: 300}); got.GetBytes() != 300 {
		t.Fatalf("drew %v", got)
	}
	if got := draw(1, "here", &wire.Draw{Bytes: 5000}); got.GetBytes() != 700 || got.GetExhausted() {
		t.Fatalf("drew %v", got)
	}
	if got := draw(60_000, "here", &wire.Draw{Bytes: 1, DrawnBytes: 700, UsedBytes: 700}); got.GetBytes() != 700 || got.GetExhausted() {
		t.Errorf("the other may still come back: %v", got)
	}
	if got := draw(130_000, "here", &wire.Draw{Bytes: 1, DrawnBytes: 700, UsedBytes: 700}); got.GetBytes() != 700 || !got.GetExhausted() {
		t.Errorf("the other was silent for long: %v", got)
	}
}

// FuzzFromWire holds that a stranger's spec is refused, or stays the same from then on.
func FuzzFromWire(f *testing.F) {
	for _, m := range []*wire.JobSpec{spec(func(*wire.JobSpec) {}), spec(func(m *wire.JobSpec) { m.Scope = []string{"*.a.example", "b?"} }), everyField(f).Wire()} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "a.example:80")
	}
	f.Fuzz(func(t *testing.T, raw []byte, host string) {
		m := new(wire.JobSpec)
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		s, err := job.FromWire(m)
		if err != nil {
			return
		}
		again, err := job.FromWire(s.Wire())
		if err != nil || !proto.Equal(again.Wire(), s.Wire()) || again.InScope(host) != s.InScope(host) {
			t.Errorf("spec changes on its way: %v", err)
		}
	})
}

func BenchmarkInScope(b *testing.B) {
	patterns := make([]string, 1000)
	for i := range patterns {
		patterns[i] = fmt.Sprintf("h%d.example", i)
	}
	scope, err := job.NewScope(patterns)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !scope.Admits("h77.example") {
			b.Fatal("not admitted")
		}
	}
}

// TestUnfinished: a poster's signed jobs count until they are done, canceled or moved, also if they
// came as records of another owner.
func TestUnfinished(t *testing.T) {
	key := crawltest.Key(1)
	r := job.NewRegistry(crawltest.NewStore())
	var specs []*job.Spec
	size := 0
	for range 4 {
		spec := crawltest.SignedJob(t, key, nil, "http://a.example/")
		specs = append(specs, spec)
		size = proto.Size(spec.Wire())
		if _, _, err := r.Post(1, spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range []*job.Spec{crawltest.Job(t, nil, "http://a.example/"), crawltest.SignedJob(t, crawltest.Key(2), nil, "http://a.example/")} {
		if _, _, err := r.Post(1, spec); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, r *job.Registry, want int) {
		t.Helper()
		if jobs, bytes, err := r.Unfinished(key.ID()); jobs != want || bytes != want*size || err != nil {
			t.Errorf("%s: %d jobs of %d bytes, %v; want %d", when, jobs, bytes, err, want)
		}
	}
	check("posted", r, 4)
	for i, state := range []job.State{job.StateDone, job.StateCanceled} {
		if _, _, err := r.SetState(2, specs[i].ID, key.SignState(specs[i].ID, job.Standing{State: state, Version: 2})); err != nil {
			t.Fatal(err)
		}
	}
	check("one done, one canceled", r, 2)
	other := job.NewRegistry(crawltest.NewStore())
	check("empty", other, 0)
	take(t, other, exported(t, r))
	check("moved", other, 2)
	if _, err := r.Remove(ring.Pos{}, ring.Pos{}); err != nil {
		t.Fatal(err)
	}
	check("removed", r, 0)
}
