package wire_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/sizelimit"
)

type message interface {
	proto.Message
	Validate() error
}

var id = bytes.Repeat([]byte{7}, wire.JobIDSize)

func urls(n int, url string) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = []byte(url)
	}
	return list
}

func fetched(change func(*wire.Fetched)) *wire.Session {
	f := &wire.Fetched{Job: id, Url: []byte("http://a.example/"), Digest: make([]byte, 32), RecordId: make([]byte, 16)}
	change(f)
	return &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Fetched: []*wire.Fetched{f}}}}
}

func sourced(change func(*wire.Links)) *wire.Links {
	m := &wire.Links{
		JobIds: [][]byte{id}, Url: urls(2, "http://a.example/"), Source: []uint32{0, 1},
		Sources: []*wire.Source{{Url: []byte("http://b.example/"), Path: []byte("LR"), Seed: []byte("http://c.example/"), Role: 1}},
	}
	change(m)
	return m
}

func note(change func(*wire.LeaseNote)) *wire.LeaseNote {
	m := &wire.LeaseNote{
		Host: "a.example", Worker: []byte("w"), Incarnation: 1, Epoch: &wire.Epoch{Counter: 3, Peer: []byte("p")}, RemainingMs: 8000,
		JobIds: [][]byte{id}, Job: []uint32{0, 0}, Hash: []uint64{1, 2},
	}
	change(m)
	return m
}

func TestValidate(t *testing.T) {
	const url = "http://a.example/"
	long := strings.Repeat("x", link.MaxURL+1)
	ids := [][]byte{id}
	tests := []struct {
		name string
		m    message
		ok   bool
	}{
		{"no links", &wire.Links{}, true},
		{"a link with empty columns", &wire.Links{JobIds: ids, Url: urls(1, url)}, true},
		{"a link with all columns", &wire.Links{JobIds: ids, Url: urls(1, url), Job: []uint32{0}, Depth: []uint32{3}, Hops: []byte{1}, Kind: []byte{2}}, true},
		{"most links", &wire.Links{JobIds: ids, Url: urls(wire.MaxLinks, url)}, true},
		{"too many links", &wire.Links{JobIds: ids, Url: urls(wire.MaxLinks+1, url)}, false},
		{"link without job", &wire.Links{Url: urls(1, url)}, false},
		{"short job", &wire.Links{JobIds: [][]byte{{1}}, Url: urls(1, url)}, false},
		{"job beyond table", &wire.Links{JobIds: ids, Url: urls(1, url), Job: []uint32{1}}, false},
		{"job beyond an int of 32 bits", &wire.Links{JobIds: ids, Url: urls(1, url), Job: []uint32{1 << 31}}, false},
		{"short column of jobs", &wire.Links{JobIds: ids, Url: urls(2, url), Job: []uint32{0}}, false},
		{"short column of depths", &wire.Links{JobIds: ids, Url: urls(2, url), Depth: []uint32{0}}, false},
		{"long column of hops", &wire.Links{JobIds: ids, Url: urls(1, url), Hops: []byte{0, 0}}, false},
		{"hops beyond the last", &wire.Links{JobIds: ids, Url: urls(1, url), Hops: []byte{wire.MaxRedirects + 2}}, false},
		{"long column of kinds", &wire.Links{JobIds: ids, Url: urls(1, url), Kind: []byte{0, 0}}, false},
		{"unknown kind", &wire.Links{JobIds: ids, Url: urls(1, url), Kind: []byte{200}}, false},
		{"empty URL", &wire.Links{JobIds: ids, Url: urls(1, "")}, false},
		{"long URL", &wire.Links{JobIds: ids, Url: urls(1, long)}, false},

		{"links with sources", sourced(func(*wire.Links) {}), true},
		{"source beyond table", sourced(func(m *wire.Links) { m.Source[1] = 2 }), false},
		{"source beyond an int of 32 bits", sourced(func(m *wire.Links) { m.Source[1] = 1 << 31 }), false},
		{"short column of sources", sourced(func(m *wire.Links) { m.Source = m.GetSource()[:1] }), false},
		{"more sources than links", sourced(func(m *wire.Links) { m.Sources = slices.Repeat(m.GetSources(), 3) }), false},
		{"source without a URL", sourced(func(m *wire.Links) { m.Sources[0].Url = nil }), false},
		{"source: long URL", sourced(func(m *wire.Links) { m.Sources[0].Url = make([]byte, link.MaxSource+1) }), false},
		{"source: long seed", sourced(func(m *wire.Links) { m.Sources[0].Seed = make([]byte, link.MaxSource+1) }), false},
		{"source: long path", sourced(func(m *wire.Links) { m.Sources[0].Path = bytes.Repeat([]byte("L"), link.MaxPath+1) }), false},
		{"source: letters", sourced(func(m *wire.Links) { m.Sources[0].Path = []byte("L\nL") }), false},
		{"source: unknown role", sourced(func(m *wire.Links) { m.Sources[0].Role = uint32(link.RoleRedirect) + 1 }), false},
		{"grant: source beyond table", &wire.SessionReply{Grants: []*wire.Grant{{Host: "a", JobIds: ids, Url: urls(1, url), Source: []uint32{1}}}}, false},
		{"grant: source", &wire.SessionReply{Grants: []*wire.Grant{{Host: "a", JobIds: ids, Url: urls(1, url), Sources: sourced(func(*wire.Links) {}).GetSources(), Source: []uint32{1}}}}, true},
		{"fetched: asked by", fetched(func(f *wire.Fetched) { f.AskedBy = make([]byte, link.MaxURL+1) }), false},

		{"session", fetched(func(*wire.Fetched) {}), true},
		{"fetched with links", fetched(func(f *wire.Fetched) { f.Links, f.LinkKind = urls(2, url), []byte{0, 1} }), true},
		{"fetched: unknown outcome", fetched(func(f *wire.Fetched) { f.Outcome = uint32(link.Outcomes) }), false},
		{"fetched: unknown kind", fetched(func(f *wire.Fetched) { f.Kind = 99 }), false},
		{"fetched: too many hops", fetched(func(f *wire.Fetched) { f.Hops = wire.MaxRedirects + 2 }), false},
		{"fetched: size", fetched(func(f *wire.Fetched) { f.Size = wire.MaxSize + 1 }), false},
		{"fetched: digest", fetched(func(f *wire.Fetched) { f.Digest = []byte{1} }), false},
		{"fetched: record", fetched(func(f *wire.Fetched) { f.RecordId = []byte{1} }), false},
		{"fetched: too many links", fetched(func(f *wire.Fetched) { f.Links = urls(wire.MaxPageLinks+1, url) }), false},
		{"fetched: long link", fetched(func(f *wire.Fetched) { f.Links = urls(1, long) }), false},
		{"fetched: column", fetched(func(f *wire.Fetched) { f.Links, f.LinkKind = urls(2, url), []byte{0} }), false},
		{"fetched: detail", fetched(func(f *wire.Fetched) { f.Detail = strings.Repeat("x", wire.MaxText+1) }), false},
		{"session: no host", &wire.Session{Hosts: []*wire.HostWork{{}}}, false},
		{"session: want", &wire.Session{Hosts: []*wire.HostWork{{Host: "a", Want: wire.MaxWant + 1}}}, false},
		{"session: address", &wire.Session{Hosts: []*wire.HostWork{{Host: "a", Addrs: [][]byte{{1}}}}}, false},
		{"session: epoch", &wire.Session{Held: []*wire.HostLease{{Host: "a", Epoch: &wire.Epoch{Peer: make([]byte, wire.MaxPeer+1)}}}}, false},
		{"session: robots", &wire.Session{Hosts: []*wire.HostWork{{Host: "a", Robots: []*wire.Robots{{State: make([]byte, wire.MaxRobotsState+1)}}}}}, false},

		{"grant", &wire.SessionReply{Grants: []*wire.Grant{{Host: "a", JobIds: ids, Url: urls(1, url), MaxBytes: []uint64{9}}}}, true},
		{"grant: column", &wire.SessionReply{Grants: []*wire.Grant{{Host: "a", JobIds: ids, Url: urls(2, url), MaxBytes: []uint64{9}}}}, false},
		{"grant: no host", &wire.SessionReply{Grants: []*wire.Grant{{}}}, false},
		{"moved and refused: as many as are held", &wire.SessionReply{Moved: slices.Repeat([]string{"a"}, wire.MaxHeld), Refused: []string{"a"}}, true},
		{"refused: no name", &wire.SessionReply{Refused: []string{""}}, false},
		{"lease note", note(func(*wire.LeaseNote) {}), true},
		{"lease note: job beyond an int of 32 bits", note(func(m *wire.LeaseNote) { m.Job[0] = 1 << 31 }), false},
		{"lease note: no epoch", note(func(m *wire.LeaseNote) { m.Epoch = nil }), false},
		{"lease note: no worker", note(func(m *wire.LeaseNote) { m.Worker = nil }), false},
		{"lease note: no host", note(func(m *wire.LeaseNote) { m.Host = "" }), false},
		{"lease note: remaining", note(func(m *wire.LeaseNote) { m.RemainingMs = wire.MaxLeaseMs + 1 }), false},
		{"lease note: job", note(func(m *wire.LeaseNote) { m.Job[1] = 1 }), false},
		{"lease note: column", note(func(m *wire.LeaseNote) { m.Job = m.GetJob()[:1] }), false},
		{"lease note: table", note(func(m *wire.LeaseNote) { m.JobIds[0] = []byte{1} }), false},
		{"lease note: too many", note(func(m *wire.LeaseNote) { m.Hash = make([]uint64, wire.MaxOut+1); m.Job = make([]uint32, wire.MaxOut+1) }), false},
		{"offer", &wire.Offer{Hosts: []string{"a"}}, true},
		{"offer: no name", &wire.Offer{Hosts: []string{""}}, false},
		{"probe", &wire.Probe{Host: "a", Scheme: "http", Method: "connect"}, true},
		{"probe: scheme", &wire.Probe{Host: "a", Scheme: "ftp"}, false},
		{"probe: method", &wire.Probe{Host: "a", Scheme: "http", Method: "post"}, false},
		{"probe reply: negative", &wire.ProbeReply{RttUs: -1}, false},

		{"spec", &wire.JobSpec{Id: id, Seeds: urls(1, url), Scope: []string{"*.example"}}, true},
		{"spec: seeds", &wire.JobSpec{Id: id, Seeds: urls(wire.MaxSeeds+1, url)}, false},
		{"spec: ID", &wire.JobSpec{Id: []byte{1}}, false},
		{"spec: pattern", &wire.JobSpec{Id: id, Scope: []string{""}}, false},
		{"spec: posted at", &wire.JobSpec{Id: id, PostedAt: make([]byte, wire.MaxPeer+1)}, false},
		{"spec: signature", &wire.JobSpec{Id: id, Signature: make([]byte, wire.MaxSignature+1)}, false},
		{"job without spec", &wire.Job{}, false},
		{"job: signature of a state", &wire.Job{Spec: &wire.JobSpec{Id: id}, StateSignature: make([]byte, wire.MaxSignature)}, true},
		{"job: long signature of a state", &wire.Job{Spec: &wire.JobSpec{Id: id}, StateSignature: make([]byte, wire.MaxSignature+1)}, false},
		{"job request: long signature", &wire.JobRequest{Id: id, SetState: 2, StateSignature: make([]byte, wire.MaxSignature+1)}, false},
		{"job request: list", &wire.JobRequest{List: true}, true},
		{"job request: nothing", &wire.JobRequest{}, false},
		{"job request: ask", &wire.JobRequest{Id: id, Ask: [][]byte{id, id}}, true},
		{"job request: ask about too many", &wire.JobRequest{Id: id, Ask: slices.Repeat([][]byte{id}, wire.MaxAsk+1)}, false},
		{"job request: ask by a short ID", &wire.JobRequest{Id: id, Ask: [][]byte{{1}}}, false},
		{"job reply: standing", &wire.JobReply{Standings: []*wire.JobStanding{{Id: id}}}, true},
		{"job reply: standing of a long signature", &wire.JobReply{Standings: []*wire.JobStanding{{Id: id, StateSignature: make([]byte, wire.MaxSignature+1)}}}, false},
		{"job reply: standing of a short ID", &wire.JobReply{Standings: []*wire.JobStanding{{Id: []byte{1}}}}, false},
		{"job reply: too many standings", &wire.JobReply{Standings: slices.Repeat([]*wire.JobStanding{{Id: id}}, wire.MaxAsk+1)}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			raw, err := proto.Marshal(test.m)
			if err != nil {
				t.Fatal(err)
			}
			m := test.m.ProtoReflect().New().Interface().(message)
			if err = sizelimit.Unmarshal(raw, m); err == nil {
				err = m.Validate()
			}
			if (err == nil) != test.ok {
				t.Errorf("error %v, want ok %v", err, test.ok)
			}
		})
	}
}

// FuzzValidate holds that whatever a stranger sends is refused or accepted without a panic, and
// that columns may be indexed afterwards.
func FuzzValidate(f *testing.F) {
	for i, m := range kinds() {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), raw)
	}
	seed, err := proto.Marshal(&wire.Links{JobIds: [][]byte{id}, Url: urls(2, "http://a.example/"), Job: []uint32{0, 0}, Hops: []byte{0, 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), seed)
	if seed, err = proto.Marshal(sourced(func(*wire.Links) {})); err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), seed)
	if seed, err = proto.Marshal(note(func(*wire.LeaseNote) {})); err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(len(kinds())-1), seed)
	if seed, err = proto.Marshal(&wire.SessionReply{Grants: []*wire.Grant{{Host: "a.example", Epoch: &wire.Epoch{Counter: 1, Peer: id}, JobIds: [][]byte{id}, Url: urls(2, "http://a.example/"), Job: []uint32{0, 0}, Revisits: []*wire.Revisit{
		{At: 1, Etag: `"a"`, LastModified: "Tue, 01 Dec 2026 08:00:00 GMT", Digest: make([]byte, 32), Content: 7, RecordId: make([]byte, 16), FetchedMs: 1, Visits: 2},
	}}}}); err != nil {
		f.Fatal(err)
	}
	for i, m := range kinds() {
		if _, ok := m.(*wire.SessionReply); ok {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		list := kinds()
		m := list[int(which)%len(list)]
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		if r, ok := m.(*wire.SessionReply); ok {
			for _, g := range r.GetGrants() {
				for _, again := range g.GetRevisits() {
					_ = g.GetUrl()[again.GetAt()]
				}
				checkSources(t, wire.SourcesOf(g, false), len(g.GetUrl()), false)
			}
		}
		if l, ok := m.(*wire.Links); ok {
			checkSources(t, wire.SourcesOf(l, true), len(l.GetUrl()), true)
			for i := range l.GetUrl() {
				if len(l.GetJob()) > 0 {
					_ = l.GetJobIds()[l.GetJob()[i]]
				}
				if len(l.GetHops()) > 0 {
					_ = l.GetHops()[i]
				}
			}
		}
		if n, ok := m.(*wire.LeaseNote); ok {
			for i := range n.GetHash() {
				_ = n.GetJobIds()[n.GetJob()[i]]
			}
		}
	})
}

// checkSources checks that the sources of n URLs are valid, and those of links canonical.
func checkSources(t *testing.T, list wire.Sources, n int, canonical bool) {
	for i := range n {
		if from := list.Of(i); from != nil && from.URL != "" && (!from.Valid() || canonical && !from.Canonical()) {
			t.Errorf("source %+v", *from)
		}
	}
}

// TestSourceTable checks that neighbors share a source, and that a table has a limit.
func TestSourceTable(t *testing.T) {
	a, b := &link.Source{URL: "http://a.example/", Seed: "http://a.example/"}, &link.Source{URL: "http://b.example/", Path: "LR", Seed: "http://a.example/", Role: link.RoleRedirect}
	again := *a
	added := []*link.Source{a, a, nil, &again, b, {}, b, a}
	wanted := []*link.Source{a, a, nil, a, b, nil, b, a}
	var table wire.SourceTable
	for _, from := range added {
		table.Add(from)
	}
	m := &wire.Links{JobIds: [][]byte{id}, Url: urls(len(added), "http://d.example/")}
	m.Sources, m.Source = table.Columns()
	if err := m.Validate(); err != nil || len(m.GetSources()) != 3 {
		t.Fatalf("%v, sources %v, want a, b and a", err, m.GetSources())
	}
	got := wire.SourcesOf(m, true)
	for i, want := range wanted {
		if from := got.Of(i); (from == nil) != (want == nil) || from != nil && *from != *want {
			t.Errorf("source of URL %d is %v, want %v", i, from, want)
		}
	}
	m.Sources[0].Url = []byte("http://a.example/\nvia: x")
	if got = wire.SourcesOf(m, true); got.Of(0).URL != "" || got.Of(4).URL == "" {
		t.Error("a source with a URL that is not canonical is accepted, or others are not")
	}
	none := wire.SourceTable{}
	none.Add(nil)
	if sources, column := none.Columns(); sources != nil || column != nil {
		t.Error("a column without sources is not omitted")
	}
	var full wire.SourceTable
	for i := range 1000 {
		full.Add(&link.Source{URL: fmt.Sprintf("http://c.example/%d%s", i, strings.Repeat("x", 1000))})
	}
	if sources, column := full.Columns(); len(sources) < 500 || len(sources) > wire.MaxSourceBytes/1000 || column[0] != 1 || column[999] != 0 {
		t.Errorf("%d sources of 1,000 bytes, the last URL has source %d", len(sources), column[999])
	}
}

func kinds() []message {
	return []message{
		&wire.Links{}, &wire.Session{}, &wire.SessionReply{}, &wire.Offer{}, &wire.Probe{},
		&wire.ProbeReply{}, &wire.JobSpec{}, &wire.Job{}, &wire.JobRequest{}, &wire.JobReply{}, &wire.LeaseNote{},
	}
}
