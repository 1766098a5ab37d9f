package job_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

func posOf(id job.ID) [16]byte {
	key := ring.JobKey(id.String())
	return [16]byte(key[:16])
}

func exported(t testing.TB, r *job.Registry) (kvs []kv.Record) {
	t.Helper()
	err := r.Export([16]byte{}, [16]byte{}, func(key, value []byte) bool {
		kvs = append(kvs, kv.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return kvs
}

func text(kvs []kv.Record) string {
	var b bytes.Buffer
	for _, rec := range kvs {
		fmt.Fprintf(&b, "%x = %x\n", rec.Key, rec.Value)
	}
	return b.String()
}

func take(t testing.TB, r *job.Registry, kvs []kv.Record) {
	t.Helper()
	wait, err := r.Import(kvs)
	if err != nil || wait() != nil {
		t.Fatal(err)
	}
}

func TestStandingMerge(t *testing.T) {
	all := []job.Standing{{}}
	for _, state := range []job.State{job.StateRunning, job.StatePaused, job.StateCanceled, job.StateDone} {
		for version := range uint64(3) {
			all = append(all, job.Standing{State: state, Version: version + 1}, job.Standing{State: state, Version: version + 1, Signature: "by the poster"})
		}
	}
	for _, a := range all {
		if a.Merge(a) != a {
			t.Errorf("%v with itself: %v", a, a.Merge(a))
		}
		for _, b := range all {
			ab := a.Merge(b)
			if ab != b.Merge(a) {
				t.Errorf("%v and %v: %v or %v", a, b, ab, b.Merge(a))
			}
			if (ab.State == job.StateCanceled) != (a.State == job.StateCanceled || b.State == job.StateCanceled) || ab != a && ab != b {
				t.Errorf("%v and %v: %v", a, b, ab)
			}
			for _, c := range all {
				if ab.Merge(c) != a.Merge(b.Merge(c)) {
					t.Errorf("%v, %v, %v: the order matters", a, b, c)
				}
			}
		}
	}
	for _, row := range []struct{ a, b, want job.State }{
		{job.StateRunning, job.StatePaused, job.StatePaused},
		{job.StateRunning, job.StateDone, job.StateRunning},
		{job.StatePaused, job.StateDone, job.StatePaused},
	} {
		if got := (job.Standing{State: row.a, Version: 2}).Merge(job.Standing{State: row.b, Version: 2}).State; got != row.want {
			t.Errorf("%v and %v: %v, want %v", row.a, row.b, got, row.want)
		}
	}
}

// next is the standing that whoever may change a job has in mind, signed if the job is.
func next(r *job.Registry, s *job.Spec, state job.State) job.Standing {
	now, err := r.Standing(s.ID)
	if !s.Signed() || err != nil {
		return job.Standing{State: state}
	}
	return crawltest.Key(1).SignState(s.ID, job.Standing{State: state, Version: now.Version + 1})
}

// history lets a registry and others that took parts of it over at some moment live on for a while.
func history(t *testing.T, rng *rand.Rand, specs []*job.Spec) (copies []*job.Registry) {
	t.Helper()
	copies = []*job.Registry{job.NewRegistry(crawltest.NewStore())}
	for step := range 80 {
		r, s, now := copies[rng.IntN(len(copies))], specs[rng.IntN(len(specs))], int64(step*1000)
		var err error
		switch rng.IntN(8) {
		case 0:
			_, _, err = r.Post(now, s)
		case 1:
			states := []job.State{job.StateRunning, job.StatePaused, job.StateDone, job.StatePaused, job.StateRunning, job.StateCanceled}
			_, _, err = r.SetState(now, s.ID, next(r, s, states[rng.IntN(len(states)-rng.IntN(2))]))
		case 2:
			_, err = r.SeedsSent(now, s.ID, rng.Uint64N(3))
		case 3:
			if len(copies) < 5 {
				next := job.NewRegistry(crawltest.NewStore())
				kvs := exported(t, r)
				take(t, next, kvs[:rng.IntN(len(kvs)+1)])
				copies = append(copies, next)
			}
		default:
			drawn := rng.Uint64N(30)
			d := &wire.Draw{Pages: rng.Uint64N(9), Bytes: rng.Uint64N(99), DrawnPages: drawn, UsedPages: rng.Uint64N(drawn + 1), ReturnPages: rng.Uint64N(drawn + 1)}
			_, _, err = r.Draw(now, s.ID, []byte{byte(rng.IntN(3)), 'p'}, d)
		}
		if err != nil && !errors.Is(err, job.ErrUnknown) && !errors.Is(err, job.ErrFinal) {
			t.Fatal(err)
		}
	}
	return copies
}

// TestImportIsUnion: whatever copies of jobs went through, merging them in any order, grouping and
// repetition comes to the same.
func TestImportIsUnion(t *testing.T) {
	seeds := uint64(150)
	if os.Getenv("APOIDEA_FULL") == "" {
		seeds = 20
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		var specs []*job.Spec
		for range 3 {
			s, err := job.FromWire(spec(func(m *wire.JobSpec) {
				m.MaxPages, m.MaxBytes = 60, 400
				m.Seeds = append(m.Seeds, []byte("http://b.example/"), []byte("http://c.example/"))
			}))
			if err == nil && len(specs) > 0 {
				err = crawltest.Key(1).Sign(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, s)
		}
		copies := history(t, rng, specs)
		var records []kv.Record
		for _, r := range copies {
			records = append(records, exported(t, r)...)
		}
		var want string
		for order := range 6 {
			all := slices.Clone(records)
			merged := job.NewRegistry(crawltest.NewStore())
			switch order {
			case 0:
			case 1: // into a copy, with counts kept from before
				merged = copies[rng.IntN(len(copies))]
				if _, err := merged.Unsent(); err != nil {
					t.Fatal(err)
				}
			default:
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				all = append(all, all[:len(all)/2]...)
			}
			for len(all) > 0 {
				n := rng.IntN(len(all)) + 1
				take(t, merged, all[:n])
				all = all[n:]
			}
			if got := text(exported(t, merged)); want == "" {
				want = got
			} else if got != want {
				t.Fatalf("seed %d, order %d:\n%s\nwant\n%s", seed, order, got, want)
			}
			checkCounts(t, merged)
		}
	}
}

// checkCounts compares what a registry counts in memory with what another one finds in its records.
func checkCounts(t *testing.T, r *job.Registry) {
	t.Helper()
	fresh := job.NewRegistry(crawltest.NewStore())
	take(t, fresh, exported(t, r))
	got, err := r.Unsent()
	want, ferr := fresh.Unsent()
	if err != nil || ferr != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("unsent %v, %v; want %v, %v", got, err, want, ferr)
	}
	list, err := r.List(job.ID{}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range list {
		id := job.ID(rec.GetSpec().GetId())
		left := max(0, int64(len(rec.GetSpec().GetSeeds()))-int64(rec.GetSeedsSent()))
		if job.State(rec.GetState()) == job.StateCanceled {
			left = 0
		}
		if got[id] != left {
			t.Fatalf("%d seeds unsent, want %d of %v", got[id], left, rec)
		}
		// Both say the same of what is left of the budget.
		d := &wire.Draw{Pages: 1000, Bytes: 1000}
		a, _, err := r.Draw(1, id, []byte("q"), d)
		b, _, ferr := fresh.Draw(1, id, []byte("q"), d)
		if err != nil || ferr != nil || !proto.Equal(a, b) {
			t.Fatalf("drawn %v, %v and %v, %v", a, err, b, ferr)
		}
	}
}

// TestBudgetSurvivesTakeOver lets owners of a job die one after the other. Each next one has what
// was acknowledged from a replica, merges it with the stale leftovers of earlier times in any
// order, and with what the dead one had on its disk when it comes back as a copy; peers go on
// drawing with requests and answers lost. Never is more out than the budget, and in the end all of
// it is used.
func TestBudgetSurvivesTakeOver(t *testing.T) {
	const budget = 200
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r, s := posted(t, crawltest.NewStore(), func(m *wire.JobSpec) { m.MaxPages = budget })
		type peer struct{ drawn, returned, used uint64 }
		peers := make([]peer, 4)
		replica := exported(t, r)
		stale := [][]kv.Record{replica}
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
			reply, _, err := r.Draw(now, s.ID, []byte{byte(i)}, &wire.Draw{Pages: rng.Uint64N(9), DrawnPages: p.drawn, ReturnPages: p.returned, UsedPages: p.used})
			if err != nil {
				t.Fatal(err)
			}
			if rng.IntN(12) == 0 { // the owner dies before the replicas have it: no answer leaves
				parts := append(slices.Clone(stale), replica)
				if rng.IntN(2) == 0 {
					parts = append(parts, exported(t, r)) // from its disk
				}
				rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				r = job.NewRegistry(crawltest.NewStore())
				for _, part := range parts {
					take(t, r, part)
				}
				stale = append(stale[max(0, len(stale)-3):], replica)
				replica = exported(t, r)
				continue
			}
			replica = exported(t, r)
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
				t.Fatalf("seed %d: said to be exhausted with %d of %d used", seed, used, budget)
			}
		}
	}
}

func TestRemove(t *testing.T) {
	r := job.NewRegistry(crawltest.NewStore())
	var ids []job.ID
	for range 20 {
		s, err := job.FromWire(spec(func(m *wire.JobSpec) { m.MaxPages = 5 }))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Post(1, s); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Draw(1, s.ID, []byte("p"), &wire.Draw{Pages: 2}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	slices.SortFunc(ids, func(a, b job.ID) int {
		x, y := posOf(a), posOf(b)
		return bytes.Compare(x[:], y[:])
	})
	if _, err := r.Unsent(); err != nil {
		t.Fatal(err)
	}
	for _, arc := range []struct {
		name   string
		lo, hi [16]byte
		left   []job.ID
	}{
		{"nothing", posOf(ids[3]), posOf(ids[3]), ids},
		{"the end", posOf(ids[15]), [16]byte{}, ids[:15]},
		{"the beginning", [16]byte{}, posOf(ids[5]), ids[5:15]},
		{"one", posOf(ids[5]), posOf(ids[6]), ids[6:15]},
	} {
		moved := job.NewRegistry(crawltest.NewStore())
		var kvs []kv.Record
		if err := r.Export(arc.lo, arc.hi, func(k, v []byte) bool {
			kvs = append(kvs, kv.Record{Key: k, Value: v})
			return true
		}); err != nil {
			t.Fatal(err)
		}
		take(t, moved, kvs)
		wait, err := r.Remove(arc.lo, arc.hi)
		if err != nil || wait() != nil {
			t.Fatal(err)
		}
		list, err := r.List(job.ID{}, 1<<20)
		unsent, uerr := r.Unsent()
		if err != nil || uerr != nil || len(list) != len(arc.left) || len(unsent) != len(arc.left) {
			t.Fatalf("%s: %d jobs left, %d with seeds, %v, %v", arc.name, len(list), len(unsent), err, uerr)
		}
		for i, rec := range list {
			if job.ID(rec.GetSpec().GetId()) != arc.left[i] {
				t.Errorf("%s: another job is left", arc.name)
			}
		}
		for _, id := range ids {
			_, here := r.Get(id)
			_, there := moved.Get(id)
			if slices.Contains(arc.left, id) != (here == nil) || slices.Contains(arc.left, id) && there == nil {
				t.Errorf("%s: job here %v, there %v", arc.name, here, there)
			}
		}
	}
	if _, _, err := r.Draw(2, ids[0], []byte("p"), &wire.Draw{Pages: 2}); !errors.Is(err, job.ErrUnknown) {
		t.Errorf("drawn of a job that is gone: %v", err)
	}
}

// TestImportRefuses: a record that makes no sense, or lies where it does not belong, is refused;
// those before it are taken.
func TestImportRefuses(t *testing.T) {
	r, s := posted(t, crawltest.NewStore(), func(m *wire.JobSpec) { m.MaxPages = 5 })
	if _, _, err := r.Draw(1, s.ID, []byte("peer"), &wire.Draw{Pages: 2}); err != nil {
		t.Fatal(err)
	}
	kvs := exported(t, r) // account, record, spec
	encode := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{1}, raw...)
	}
	other := s.Wire()
	other.MaxPages++
	elsewhere := s.Wire()
	id := job.NewID()
	elsewhere.Id = id[:]
	moved := func(rec kv.Record, at int) []byte {
		k := bytes.Clone(rec.Key)
		k[at] ^= 1
		return k
	}
	known, fresh := r, job.NewRegistry(crawltest.NewStore())
	for _, row := range []struct {
		name string
		into *job.Registry
		rec  kv.Record
	}{
		{"no key", fresh, kv.Record{}},
		{"a short key", fresh, kv.Record{Key: kvs[1].Key[:32], Value: kvs[1].Value}},
		{"a long key of a record", fresh, kv.Record{Key: append(bytes.Clone(kvs[1].Key), 1), Value: kvs[1].Value}},
		{"another position", fresh, kv.Record{Key: moved(kvs[1], 3), Value: kvs[1].Value}},
		{"another job's position", fresh, kv.Record{Key: moved(kvs[1], 20), Value: kvs[1].Value}},
		{"another kind", fresh, kv.Record{Key: moved(kvs[1], 32), Value: kvs[1].Value}},
		{"an account without a peer", fresh, kv.Record{Key: kvs[0].Key[:33], Value: kvs[0].Value}},
		{"an account of another peer", fresh, kv.Record{Key: moved(kvs[0], 33), Value: kvs[0].Value}},
		{"an account of a long name", fresh, kv.Record{
			Key: append(bytes.Clone(kvs[0].Key[:33]), make([]byte, wire.MaxPeer+1)...), Value: encode(&wire.Account{Peer: make([]byte, wire.MaxPeer+1)}),
		}},
		{"more returned than drawn", fresh, kv.Record{Key: kvs[0].Key, Value: encode(&wire.Account{Peer: []byte("peer"), PagesDrawn: 1, PagesReturned: 2})}},
		{"more used than drawn", fresh, kv.Record{Key: kvs[0].Key, Value: encode(&wire.Account{Peer: []byte("peer"), BytesUsed: 2})}},
		{"drawn without end", fresh, kv.Record{Key: kvs[0].Key, Value: encode(&wire.Account{Peer: []byte("peer"), BytesDrawn: 1 << 63})}},
		{"no value", fresh, kv.Record{Key: kvs[1].Key}},
		{"another format", fresh, kv.Record{Key: kvs[1].Key, Value: append([]byte{2}, kvs[1].Value[1:]...)}},
		{"no message", fresh, kv.Record{Key: kvs[1].Key, Value: []byte{1, 0xff}}},
		{"no state", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{Version: 1})}},
		{"an unknown state", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{Version: 1, State: 9})}},
		{"no version", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{State: 1})}},
		{"the last version", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{State: 1, Version: 1<<64 - 1})}},
		{"seeds sent without end", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{State: 1, Version: 1, SeedsSent: 1 << 40})}},
		{"a record with a spec in it", fresh, kv.Record{Key: kvs[1].Key, Value: encode(&wire.Job{State: 1, Version: 1, Spec: s.Wire()})}},
		{"a spec without seeds", fresh, kv.Record{Key: kvs[2].Key, Value: encode(&wire.JobSpec{Id: s.ID[:]})}},
		{"a spec of another job", fresh, kv.Record{Key: kvs[2].Key, Value: encode(elsewhere)}},
		{"another spec", known, kv.Record{Key: kvs[2].Key, Value: encode(other)}},
	} {
		before := text(exported(t, row.into))
		wait, err := row.into.Import([]kv.Record{kvs[0], row.rec, kvs[1]})
		if err == nil || wait == nil || wait() != nil {
			t.Errorf("%s: taken, %v", row.name, err)
		}
		if got := exported(t, row.into); row.into == known && text(got) != before || row.into == fresh && text(got) != text(kvs[:1]) {
			t.Errorf("%s: it left\n%s", row.name, text(got))
		}
		if row.name == "another spec" && !errors.Is(err, job.ErrConflict) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestPartsOfAJob: a job of which not all has come is unknown, and whoever posts it meanwhile loses
// nothing of what has and what is to come.
func TestPartsOfAJob(t *testing.T) {
	r, s := posted(t, crawltest.NewStore(), func(m *wire.JobSpec) { m.MaxPages = 10 })
	if _, _, err := r.SetState(1, s.ID, job.Standing{State: job.StatePaused}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.SetState(1, s.ID, job.Standing{State: job.StateRunning}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Draw(1, s.ID, []byte("peer"), &wire.Draw{Pages: 7}); err != nil {
		t.Fatal(err)
	}
	kvs := exported(t, r)
	for n := range len(kvs) {
		next := job.NewRegistry(crawltest.NewStore())
		take(t, next, kvs[:n])
		_, gerr := next.Get(s.ID)
		_, _, derr := next.Draw(1, s.ID, []byte("q"), &wire.Draw{Pages: 1})
		list, lerr := next.List(job.ID{}, 1<<20)
		if !errors.Is(gerr, job.ErrUnknown) || !errors.Is(derr, job.ErrUnknown) || lerr != nil || len(list) > 0 {
			t.Errorf("with %d of %d records: %v, %v, %v, %v", n, len(kvs), gerr, derr, list, lerr)
		}
		if _, _, err := next.Restore(2, s, job.Standing{State: job.StatePaused, Version: 2}); err != nil {
			t.Fatal(err)
		}
		take(t, next, kvs)
		rec, err := next.Get(s.ID)
		if err != nil || rec.GetVersion() != 3 || job.State(rec.GetState()) != job.StateRunning {
			t.Errorf("with %d records and then all: %v, %v", n, rec, err)
		}
		if reply, _, err := next.Draw(3, s.ID, []byte("q"), &wire.Draw{Pages: 9}); err != nil || reply.GetPages() != 3 {
			t.Errorf("drawn %v of three that are left, %v", reply, err)
		}
	}
}

// FuzzImport holds that records of strangers are refused or merge to the same in both orders.
func FuzzImport(f *testing.F) {
	var all [2][]kv.Record // of a job that is signed, and of one that is not
	var s *job.Spec
	for i := range all {
		var err error
		if s, err = job.FromWire(&wire.JobSpec{Id: make([]byte, job.IDSize), Seeds: [][]byte{[]byte("http://a.example/")}, MaxPages: 5}); err != nil {
			f.Fatal(err)
		}
		now := job.Posted()
		if i == 0 {
			now = crawltest.Key(1).SignState(s.ID, job.Standing{State: job.StatePaused, Version: 2})
			if err := crawltest.Key(1).Sign(s); err != nil {
				f.Fatal(err)
			}
		}
		r := job.NewRegistry(crawltest.NewStore())
		if _, _, err := r.Restore(1, s, now); err != nil {
			f.Fatal(err)
		}
		if _, _, err := r.Draw(1, s.ID, []byte("peer"), &wire.Draw{Pages: 2}); err != nil {
			f.Fatal(err)
		}
		all[i] = exported(f, r)
		for _, rec := range all[i] {
			f.Add(i == 0, rec.Key[32:], rec.Value)
		}
	}
	f.Fuzz(func(t *testing.T, signed bool, tail, value []byte) {
		kvs := all[1]
		if signed {
			kvs = all[0]
		}
		in := []kv.Record{{Key: append(bytes.Clone(kvs[0].Key[:32]), tail...), Value: value}}
		ab, ba := job.NewRegistry(crawltest.NewStore()), job.NewRegistry(crawltest.NewStore())
		take(t, ab, kvs)
		if _, err := ab.Import(in); err != nil {
			return
		}
		if _, err := ba.Import(in); err != nil {
			t.Fatalf("taken after others, and refused alone: %v", err)
		}
		take(t, ba, kvs)
		if x, y := text(exported(t, ab)), text(exported(t, ba)); x != y {
			t.Fatalf("%s\nor\n%s", x, y)
		}
		for _, r := range []*job.Registry{ab, ba} {
			if _, _, err := r.Draw(2, s.ID, []byte("q"), &wire.Draw{Pages: 2}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Unsent(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestUnknownFields checks that unknown fields are kept when a record is merged and when it
// changes, and that a record of another format is rejected.
func TestUnknownFields(t *testing.T) {
	field := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "of a later version")
	r := job.NewRegistry(crawltest.NewStore())
	spec, err := job.FromWire(&wire.JobSpec{
		Id: bytes.Repeat([]byte{7}, job.IDSize), Seeds: [][]byte{[]byte("http://a.example/")}, Scope: []string{"*"}, CreatedMs: 1, Poster: []byte("p"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Post(1, spec); err != nil {
		t.Fatal(err)
	}
	record := func() kv.Record {
		kvs := exported(t, r)
		return kvs[slices.IndexFunc(kvs, func(rec kv.Record) bool { return rec.Key[len(rec.Key)-1] == 'r' })]
	}
	rec := record()
	for range 2 { // the second time it brings nothing new
		if _, err := r.Import([]kv.Record{{Key: rec.Key, Value: append(bytes.Clone(rec.Value), field...)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.SetState(2, spec.ID, job.Standing{State: job.StatePaused}); err != nil {
		t.Fatal(err)
	}
	if rec = record(); !bytes.HasSuffix(rec.Value, field) {
		t.Errorf("%x does not end in %x", rec.Value, field)
	}
	rec.Value[0]++
	if _, err := r.Import([]kv.Record{rec}); err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("another format: %v", err)
	}
}
