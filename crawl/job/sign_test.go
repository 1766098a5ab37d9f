package job_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// everyField is a spec that says something in each field.
func everyField(t testing.TB) *job.Spec {
	t.Helper()
	s, err := job.FromWire(&wire.JobSpec{
		Id: bytes.Repeat([]byte{7}, job.IDSize), Seeds: [][]byte{[]byte("http://a.example/"), []byte("http://b.example/")}, Scope: []string{"*.example"},
		HasMaxDepth: true, MaxDepth: 3, MaxPages: 1000, MaxBytes: 1 << 20, MaxPagesPerHost: 10, Requisites: true, NoSitemaps: true, CreatedMs: 1_790_000_000_000,
		Retries: 2, Include: []string{"/in"}, Exclude: []string{"/out"}, HostDepths: []*wire.HostDepth{{Host: "b.example", Depth: 1}}, MoreSeeds: 5,
		SeedsDigest: bytes.Repeat([]byte{9}, 32), First: []string{"/first"}, PostedAt: []byte("peer"),
		TrapRules: &wire.TrapRules{Pattern: 1, Depth: 2, DepthStale: 3, Queries: 4, QueryStale: 5, Host: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := crawltest.Key(1).Sign(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSignedBytes: what is signed of a spec are these bytes, whatever library writes them, so that
// peers of all versions see the same.
func TestSignedBytes(t *testing.T) {
	const want = "0a10070707070707070707070707070707071211687474703a2f2f612e6578616d706c652f1211687474703a2f2f622e6578616d706c652f1a092a2e" +
		"6578616d706c652001280330e80738808040400a480150015880d8c1a28c3462260024080112208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d" +
		"94121bf3748801b40f6f5c68028201032f696e8a01042f6f757492010d0a09622e6578616d706c651001980105a20120090909090909090909090909" +
		"0909090909090909090909090909090909090909aa01062f6669727374ba010470656572c2010c080110021803200428053006"
	s := everyField(t)
	text, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	public := ed25519.PublicKey(s.Poster[len(s.Poster)-ed25519.PublicKeySize:])
	if !ed25519.Verify(public, append([]byte("apoidea job spec 1\x00"), text...), s.Signature) {
		m := s.Wire()
		m.Signature = nil
		now, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		t.Errorf("signed are other bytes, perhaps %x, %v", now, err)
	}
	fields := s.Wire().ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !s.Wire().ProtoReflect().Has(f) && f.Name() != "no_retries" && f.Name() != "order" {
			t.Errorf("field %s of a spec is not in the test", f.Name())
		}
	}
}

// TestSignature: a spec that was changed behind its signature is refused, whatever was changed, and
// one that is not signed is taken.
func TestSignature(t *testing.T) {
	signed := everyField(t)
	if again, err := job.FromWire(signed.Wire()); err != nil || !again.Signed() || !proto.Equal(again.Wire(), signed.Wire()) {
		t.Fatalf("signed: %+v, %v", again, err)
	}
	if plain := crawltest.Job(t, nil, "http://a.example/"); plain.Signed() {
		t.Error("signed by nobody, and signed")
	}
	foreign := everyField(t)
	if err := crawltest.Key(2).Sign(foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := job.FromWire(foreign.Wire()); err != nil {
		t.Errorf("signed by another key, as its own: %v", err)
	}
	for name, change := range map[string]func(*wire.JobSpec){
		"ID":                  func(m *wire.JobSpec) { m.Id[0]++ },
		"seed":                func(m *wire.JobSpec) { m.Seeds[1] = []byte("http://c.example/") },
		"seeds":               func(m *wire.JobSpec) { m.Seeds = m.GetSeeds()[:1] },
		"scope":               func(m *wire.JobSpec) { m.Scope = []string{"*"} },
		"depth":               func(m *wire.JobSpec) { m.MaxDepth++ },
		"no depth":            func(m *wire.JobSpec) { m.HasMaxDepth = false },
		"pages":               func(m *wire.JobSpec) { m.MaxPages = 0 },
		"bytes":               func(m *wire.JobSpec) { m.MaxBytes = 0 },
		"pages of a host":     func(m *wire.JobSpec) { m.MaxPagesPerHost++ },
		"requisites":          func(m *wire.JobSpec) { m.Requisites = false },
		"sitemaps":            func(m *wire.JobSpec) { m.NoSitemaps = false },
		"date":                func(m *wire.JobSpec) { m.CreatedMs++ },
		"retries":             func(m *wire.JobSpec) { m.Retries++ },
		"no retries":          func(m *wire.JobSpec) { m.NoRetries = true },
		"include":             func(m *wire.JobSpec) { m.Include = nil },
		"exclude":             func(m *wire.JobSpec) { m.Exclude = nil },
		"depth of a host":     func(m *wire.JobSpec) { m.HostDepths[0].Depth++ },
		"more seeds":          func(m *wire.JobSpec) { m.MoreSeeds++ },
		"digest":              func(m *wire.JobSpec) { m.SeedsDigest[0]++ },
		"first":               func(m *wire.JobSpec) { m.First = nil },
		"where it was posted": func(m *wire.JobSpec) { m.PostedAt = nil },
		"signature":           func(m *wire.JobSpec) { m.Signature[0]++ },
		"a longer signature":  func(m *wire.JobSpec) { m.Signature = append(m.GetSignature(), 0) },
		"a shorter signature": func(m *wire.JobSpec) { m.Signature = m.GetSignature()[:1] },
		"another's name":      func(m *wire.JobSpec) { m.Poster = foreign.Poster },
		"another's signature": func(m *wire.JobSpec) { m.Signature = foreign.Signature },
		"no name":             func(m *wire.JobSpec) { m.Poster = nil },
		"a name without key":  func(m *wire.JobSpec) { m.Poster = []byte("p") },
		"a short key":         func(m *wire.JobSpec) { m.Poster = m.GetPoster()[:20] },
	} {
		m := proto.CloneOf(signed.Wire())
		change(m)
		if _, err := job.FromWire(m); !errors.Is(err, job.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := signed.Wire()
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "of a later version"))
	if _, err := job.FromWire(m); err != nil {
		t.Errorf("a field that is not signed: %v", err)
	}
	m = signed.Wire()
	m.Seeds = append(m.GetSeeds(), []byte("HTTP://A.example:80/"))
	if _, err := job.FromWire(m); err != nil {
		t.Errorf("the same seeds in another spelling: %v", err)
	}
}

// TestZeroKey: it signs nothing, and is nobody's.
func TestZeroKey(t *testing.T) {
	s := crawltest.Job(t, nil, "http://a.example/")
	if err := (job.Key{}).Sign(s); err != nil || s.Signed() || (job.Key{}).ID() != nil {
		t.Errorf("%v, %x", err, s.Signature)
	}
}

// TestSignedState: what is signed of a state are these bytes, and they are of one job, one state
// and one version.
func TestSignedState(t *testing.T) {
	s, key := everyField(t), crawltest.Key(1)
	now := key.SignState(s.ID, job.Standing{State: job.StatePaused, Version: 0x0102030405})
	public := ed25519.PublicKey(s.Poster[len(s.Poster)-ed25519.PublicKeySize:])
	text := append([]byte("apoidea job state 1\x00"), s.ID[:]...)
	if text = append(text, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4, 5); !ed25519.Verify(public, text, []byte(now.Signature)) {
		t.Error("signed are other bytes")
	}
	other := crawltest.SignedJob(t, key, nil, "http://a.example/")
	for _, row := range []struct {
		name string
		told job.Standing
		ok   bool
	}{
		{"as signed", now, true},
		{"as posted", job.Posted(), true},
		{"not signed", job.Standing{State: now.State, Version: now.Version}, false},
		{"another state", job.Standing{State: job.StateCanceled, Version: now.Version, Signature: now.Signature}, false},
		{"another version", job.Standing{State: now.State, Version: now.Version + 1, Signature: now.Signature}, false},
		{"of another job", key.SignState(other.ID, now), false},
		{"by another key", crawltest.Key(2).SignState(s.ID, now), false},
		{"running again, not signed", job.Standing{State: job.StateRunning, Version: 2}, false},
		{"no state", job.Standing{}, false},
	} {
		got, err := s.Vouched(row.told)
		if row.ok && (err != nil || got != row.told) || !row.ok && !errors.Is(err, job.ErrSignature) {
			t.Errorf("%s: %v, %v", row.name, got, err)
		}
		if want := map[bool]job.Standing{true: row.told, false: job.Posted()}[row.ok]; s.Believed(row.told) != want {
			t.Errorf("%s: believed is %v", row.name, s.Believed(row.told))
		}
	}
	plain := crawltest.Job(t, nil, "http://a.example/")
	if got, err := plain.Vouched(now); err != nil || got != (job.Standing{State: now.State, Version: now.Version}) {
		t.Errorf("of a job that is not signed: %v, %v", got, err)
	}
}

// TestOnlyThePosterChangesAJob: without the signature of the poster's key a registry takes no
// change of a signed job, whichever way it comes, and it takes what is signed.
func TestOnlyThePosterChangesAJob(t *testing.T) {
	key := crawltest.Key(1)
	s, other := crawltest.SignedJob(t, key, nil, "http://a.example/"), crawltest.SignedJob(t, key, nil, "http://a.example/")
	sign := func(state job.State, version uint64) job.Standing {
		return key.SignState(s.ID, job.Standing{State: state, Version: version})
	}
	r := job.NewRegistry(crawltest.NewStore())
	if _, _, err := r.Post(1, s); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.SetState(2, s.ID, sign(job.StatePaused, 2)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.SetState(3, s.ID, sign(job.StateRunning, 3)); err != nil {
		t.Fatal(err)
	}
	before := exported(t, r)
	for _, row := range []struct {
		name string
		told job.Standing
		old  bool // it was signed once, so it is no lie, and changes nothing
	}{
		{"not signed", job.Standing{State: job.StateCanceled, Version: 1 << 40}, false},
		{"by a stranger", crawltest.Key(2).SignState(s.ID, job.Standing{State: job.StateCanceled, Version: 4}), false},
		{"of another job", key.SignState(other.ID, job.Standing{State: job.StateCanceled, Version: 4}), false},
		{"an old signature with a later version", job.Standing{State: job.StatePaused, Version: 4, Signature: sign(job.StatePaused, 2).Signature}, false},
		{"an old one", sign(job.StatePaused, 2), true},
		{"as it was posted", job.Posted(), true},
	} {
		if _, _, err := r.SetState(4, s.ID, row.told); row.old != (err == nil) || err != nil && !errors.Is(err, job.ErrSignature) {
			t.Errorf("%s: set: %v", row.name, err)
		}
		if _, _, err := r.Restore(4, s, row.told); row.old != (err == nil) || err != nil && !errors.Is(err, job.ErrSignature) {
			t.Errorf("%s: restored: %v", row.name, err)
		}
		take(t, r, []kv.Record{recordWith(t, before, row.told)})
		take(t, r, withRecord(before, recordWith(t, before, row.told)))
		if got := exported(t, r); text(got) != text(before) {
			t.Errorf("%s: it left\n%s\nof\n%s", row.name, text(got), text(before))
		}
	}
	end := sign(job.StateCanceled, 4)
	set, restored, moved := job.NewRegistry(crawltest.NewStore()), job.NewRegistry(crawltest.NewStore()), job.NewRegistry(crawltest.NewStore())
	take(t, set, before)
	if _, _, err := set.SetState(5, s.ID, end); err != nil {
		t.Error(err)
	}
	if _, _, err := restored.Restore(5, s, end); err != nil {
		t.Error(err)
	}
	take(t, moved, before)
	take(t, moved, []kv.Record{recordWith(t, before, end)})
	for name, r := range map[string]*job.Registry{"set": set, "restored": restored, "moved": moved} {
		if got, err := r.Standing(s.ID); err != nil || got != end {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, _, err := r.SetState(6, s.ID, sign(job.StateRunning, 9)); !errors.Is(err, job.ErrFinal) {
			t.Errorf("%s: resumed: %v", name, err)
		}
	}
}

// recordWith is the record of a job, without its spec, in another state.
func recordWith(t testing.TB, kvs []kv.Record, s job.Standing) kv.Record {
	t.Helper()
	at := slices.IndexFunc(kvs, func(rec kv.Record) bool { return rec.Key[32] == 'r' })
	raw, err := proto.Marshal(&wire.Job{State: uint32(s.State), Version: s.Version, StateSignature: []byte(s.Signature), UpdatedMs: 3})
	if err != nil {
		t.Fatal(err)
	}
	return kv.Record{Key: kvs[at].Key, Value: append([]byte{1}, raw...)}
}

func withRecord(kvs []kv.Record, other kv.Record) []kv.Record {
	kvs = slices.Clone(kvs)
	at := slices.IndexFunc(kvs, func(rec kv.Record) bool { return bytes.Equal(rec.Key, other.Key) })
	kvs[at] = other
	return kvs
}

// TestStateBeforeItsSpec: a state that came before the spec is judged when that comes, and a lie
// that came first hides nothing of what comes with the spec.
func TestStateBeforeItsSpec(t *testing.T) {
	key := crawltest.Key(1)
	s := crawltest.SignedJob(t, key, nil, "http://a.example/")
	r := job.NewRegistry(crawltest.NewStore())
	paused := key.SignState(s.ID, job.Standing{State: job.StatePaused, Version: 2})
	if _, _, err := r.Restore(3, s, paused); err != nil {
		t.Fatal(err)
	}
	kvs := exported(t, r) // record, spec
	lie := recordWith(t, kvs, job.Standing{State: job.StateCanceled, Version: 1 << 40, Signature: paused.Signature})
	for _, row := range []struct {
		name  string
		parts [][]kv.Record
		want  job.Standing
	}{
		{"one after the other", [][]kv.Record{kvs[:1], kvs[1:]}, paused},
		{"a lie, and the spec", [][]kv.Record{{lie}, kvs[1:]}, job.Posted()},
		{"a lie with the spec", [][]kv.Record{{lie, kvs[1]}}, job.Posted()},
		{"a lie, and all", [][]kv.Record{{lie}, kvs}, paused},
		{"a lie, and all at once", [][]kv.Record{{lie, kvs[0], kvs[1]}}, paused},
		{"all, and a lie", [][]kv.Record{kvs, {lie}}, paused},
	} {
		next := job.NewRegistry(crawltest.NewStore())
		for _, part := range row.parts {
			take(t, next, part)
		}
		if got, err := next.Standing(s.ID); err != nil || got != row.want {
			t.Errorf("%s: %v, %v", row.name, got, err)
		}
	}
	next := job.NewRegistry(crawltest.NewStore())
	take(t, next, []kv.Record{lie})
	if _, _, err := next.Post(4, s); err != nil {
		t.Fatal(err)
	}
	if got, err := next.Standing(s.ID); err != nil || got != job.Posted() {
		t.Errorf("posted behind a lie: %v, %v", got, err)
	}
}

// TestForgedSpecIsLeftOut: a spec that its poster's key did not sign makes no job known, and what
// comes behind it is taken.
func TestForgedSpecIsLeftOut(t *testing.T) {
	for name, change := range map[string]func(*wire.JobSpec){
		"changed":    func(m *wire.JobSpec) { m.Scope = []string{"*"} },
		"by another": func(m *wire.JobSpec) { m.Poster = crawltest.Key(2).ID() },
	} {
		r := job.NewRegistry(crawltest.NewStore())
		forged, behind := crawltest.SignedJob(t, crawltest.Key(1), nil, "http://a.example/"), crawltest.Job(t, nil, "http://a.example/")
		var kvs []kv.Record
		for _, s := range []*job.Spec{forged, behind} {
			one := job.NewRegistry(crawltest.NewStore())
			if _, _, err := one.Post(1, s); err != nil {
				t.Fatal(err)
			}
			kvs = append(kvs, exported(t, one)...)
		}
		m := proto.CloneOf(forged.Wire())
		change(m)
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		kvs[1].Value = append([]byte{1}, raw...)
		take(t, r, kvs)
		list, err := r.List(job.ID{}, 1<<20)
		if err != nil || len(list) != 1 || job.ID(list[0].GetSpec().GetId()) != behind.ID {
			t.Errorf("%s: known are %v, %v", name, list, err)
		}
	}
}
