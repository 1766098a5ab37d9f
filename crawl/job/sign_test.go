package job_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// everyField is a spec that says something in each field.
func everyField(t testing.TB) *job.Spec {
	t.Helper()
	s, err := job.FromWire(&wire.JobSpec{
		Id: bytes.Repeat([]byte{7}, job.IDSize), Seeds: [][]byte{[]byte("http://a.example/"), []byte("http://b.example/")}, Scope: []string{"*.example"},
		HasMaxDepth: true, MaxDepth: 3, MaxPages: 1000, MaxBytes: 1 << 20, MaxPagesPerHost: 10, Requisites: true, NoSitemaps: true, CreatedMs: 1_790_000_000_000,
		Retries: 2, Include: []string{"/in"}, Exclude: []string{"/out"}, HostDepths: []*wire.HostDepth{{Host: "b.example", Depth: 1}}, MoreSeeds: 5,
		SeedsDigest: bytes.Repeat([]byte{9}, 32), First: []string{"/first"}, Order: uint32(job.ByLinks),
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
		"0909090909090909090909090909090909090909aa01062f6669727374b00101"
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
		if f := fields.Get(i); !s.Wire().ProtoReflect().Has(f) && f.Name() != "no_retries" {
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
		"order":               func(m *wire.JobSpec) { m.Order = 0 },
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
