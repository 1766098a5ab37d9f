package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/sizelimit"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
	nodewire "github.com/apoidea/apoidea/node/services/wire"
)

// messages are the types of all messages between peers.
func messages(t testing.TB) (all []protoreflect.MessageType) {
	t.Helper()
	for _, file := range []protoreflect.FileDescriptor{
		new(wire.Links).ProtoReflect().Descriptor().ParentFile(), new(dhtwire.Peer).ProtoReflect().Descriptor().ParentFile(),
		new(nodewire.Content).ProtoReflect().Descriptor().ParentFile(),
	} {
		for i := range file.Messages().Len() {
			m, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(i).FullName())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	return all
}

func lists(m protoreflect.MessageDescriptor) (all []protoreflect.FieldDescriptor) {
	for i := range m.Fields().Len() {
		if f := m.Fields().Get(i); f.IsList() {
			all = append(all, f)
		}
	}
	return all
}

// TestEveryListHasABound: no repeated field of a message between peers is without one.
func TestEveryListHasABound(t *testing.T) {
	for _, m := range messages(t) {
		for _, f := range lists(m.Descriptor()) {
			if most, ok := sizelimit.Bound(f.FullName()); !ok || most == 0 {
				t.Errorf("%s has no bound", f.FullName())
			}
		}
	}
}

// taken is what fn allocates.
func taken(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// slack is what reading a message may take beside: an error, and what reflection and the runtime
// need.
const slack = 16 << 10

// checkMemory reads a message, and sees that what it takes keeps the bound, and the estimate.
func checkMemory(t testing.TB, of protoreflect.MessageType, raw []byte) (err error) {
	t.Helper()
	m := of.New().Interface()
	most := sizelimit.Times*len(raw) + sizelimit.SpareOf(of.Descriptor().FullName())
	var c sizelimit.Counted
	if _, err := sizelimit.Count(nil, m); err != nil { // makes the plan
		return err
	}
	if took := taken(func() { c, err = sizelimit.Count(raw, m) }); took > slack {
		t.Errorf("%s: %d bytes were taken to count %d: %v", of.Descriptor().Name(), took, len(raw), err)
	}
	if err != nil {
		return err
	}
	took := taken(func() { err = c.Unpack() })
	for range 2 { // what others take meanwhile counts, and what protobuf takes once for a type
		if took > most+slack || took > c.Memory+slack {
			again := of.New().Interface()
			took = min(took, taken(func() { err = sizelimit.Unmarshal(raw, again) }))
		}
	}
	if took > most+slack || took > c.Memory+slack {
		t.Errorf("%s: %d bytes took %d of memory, at most %d, %d by the count: %v", of.Descriptor().Name(), len(raw), took, most, c.Memory, err)
	}
	return err
}

// full is a message of a size whose list has as many of the smallest parts as fit; all of ways, in
// which it can come.
func full(f protoreflect.FieldDescriptor, size int) (ways [][]byte) {
	most, _ := sizelimit.Bound(f.FullName())
	for _, n := range []int{size, most} { // the second: as many as there may be
		if f.IsPacked() {
			ways = append(ways, protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), make([]byte, n)))
			part := protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), []byte{0})
			if f.Kind() != protoreflect.Fixed32Kind && f.Kind() != protoreflect.Fixed64Kind {
				ways = append(ways, bytes.Repeat(part, min(n, size/len(part))))
			}
			continue
		}
		part := protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), nil)
		ways = append(ways, bytes.Repeat(part, min(n, size/len(part))))
	}
	return ways
}

// unraced leaves a test that measures memory to the run without the race detector, which has twice
// as much taken, and needs minutes.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}

// TestFullOfEmptyParts: a message that is full of empty parts, by each list of each type and on
// each level, takes no more memory than it may, whether it is refused or not.
//
// Slow: measures the memory that each list of each message may take.
func TestFullOfEmptyParts(t *testing.T) {
	unraced(t)
	for _, of := range messages(t) {
		for _, f := range lists(of.Descriptor()) {
			for i, raw := range full(f, calls.MaxPayload) {
				if err := checkMemory(t, of, raw); len(raw) > 1<<20 && (err == nil || !strings.Contains(err.Error(), string(f.Name()))) {
					t.Errorf("%s of %d bytes, way %d: %v", f.FullName(), len(raw), i, err)
				}
			}
			if f.Kind() != protoreflect.MessageKind {
				continue
			}
			for _, inner := range lists(f.Message()) {
				for _, raw := range full(inner, calls.MaxPayload/2) {
					part := protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), raw)
					_ = checkMemory(t, of, bytes.Repeat(part, max(1, min(1000, calls.MaxPayload/len(part)))))
				}
			}
		}
		if of.Descriptor().Fields().Len() > 0 { // one field of text or bytes, again and again
			part := protowire.AppendBytes(protowire.AppendTag(nil, of.Descriptor().Fields().Get(0).Number(), protowire.BytesType), []byte("a"))
			_ = checkMemory(t, of, bytes.Repeat(part, calls.MaxPayload/len(part)))
		}
		later := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
		if err := checkMemory(t, of, bytes.Repeat(later, calls.MaxPayload/len(later))); err == nil {
			t.Errorf("%s full of fields that are not known is taken", of.Descriptor().Name())
		}
	}
}

// some is n values.
func some[T any](n int, v T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// each is n values, one made for each.
func each[T any](n int, v func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v(i)
	}
	return list
}

var (
	fullURL   = []byte("http://a.example/page.html")
	fullPeer  = make([]byte, 38)
	fullJob   = make([]byte, wire.JobIDSize)
	fullHash  = make([]byte, 32)
	fullEpoch = &wire.Epoch{Counter: 1, Peer: fullPeer}
)

func fullSpec() *wire.JobSpec {
	return &wire.JobSpec{Id: fullJob, Seeds: [][]byte{fullURL}, Poster: fullPeer, CreatedMs: 1 << 40}
}

func fullGrant(urls int) *wire.Grant {
	return &wire.Grant{
		Host: "a.example", Epoch: fullEpoch, JobIds: some(min(urls, wire.MaxJobs), fullJob), Url: some(urls, fullURL), Job: some(urls, uint32(0)),
		Depth: some(urls, uint32(1)), Hops: make([]byte, urls), Kind: make([]byte, urls), Tries: make([]byte, urls), MaxBytes: some(urls, uint64(0)),
	}
}

// fullMessages are as full, and their parts as small, as those of honest peers are.
func fullMessages() []proto.Message {
	names := some(wire.MaxHeld+wire.MaxHosts, "a.example")
	return []proto.Message{
		&wire.Links{
			JobIds: some(wire.MaxJobs, fullJob), Url: some(wire.MaxLinks, fullURL), Job: some(wire.MaxLinks, uint32(0)), Depth: some(wire.MaxLinks, uint32(1)),
			Hops: make([]byte, wire.MaxLinks), Kind: make([]byte, wire.MaxLinks),
		},
		&wire.LinksReply{Moved: some(wire.MaxLinks, uint32(1)), Busy: some(wire.MaxLinks, uint32(1))},
		&wire.Session{Held: some(wire.MaxHeld, &wire.HostLease{Host: "a.example", Epoch: fullEpoch})},
		&wire.Session{Hosts: some(wire.MaxHosts, &wire.HostWork{Host: "a.example", Want: 1})},
		&wire.Session{Hosts: some(wire.MaxHosts, &wire.HostWork{Host: "a.example", Epoch: fullEpoch, Want: 256, Addrs: [][]byte{make([]byte, 4)}})},
		&wire.Session{Hosts: some(8, &wire.HostWork{
			Host: "a.example", Epoch: fullEpoch, Robots: some(wire.MaxOrigins, &wire.Robots{Origin: "http://a.example", State: make([]byte, wire.MaxRobotsState)}),
			Addrs: some(wire.MaxAddrs, make([]byte, 16)), Returned: some(wire.MaxFetched, &wire.Unfetched{Job: fullJob, Hash: 1}),
			Fetched: some(wire.MaxFetched, &wire.Fetched{Job: fullJob, Url: fullURL, Outcome: 1, Status: 200, Digest: fullHash, FetchedMs: 1 << 40, Links: some(3, fullURL)}),
		})},
		&wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Fetched: []*wire.Fetched{{
			Job: fullJob, Url: fullURL, Links: some(wire.MaxPageLinks, fullURL), LinkKind: make([]byte, wire.MaxPageLinks),
		}}}}},
		&wire.SessionReply{Revoked: names}, &wire.SessionReply{Moved: names}, &wire.SessionReply{Refused: names, NotRenewed: names},
		&wire.SessionReply{Grants: some(wire.MaxHosts, fullGrant(0))},
		&wire.SessionReply{Grants: some(wire.MaxHosts, fullGrant(1))},
		&wire.SessionReply{Grants: some(16, fullGrant(wire.MaxGrant))},
		&wire.LeaseNote{
			Host: "a.example", Worker: fullPeer, Epoch: fullEpoch, JobIds: some(wire.MaxJobs, fullJob), Job: some(wire.MaxOut, uint32(0)),
			Hash: some(wire.MaxOut, uint64(1)),
		},
		&wire.Offer{Hosts: some(wire.MaxHosts, "a.example")},
		&wire.OfferReply{Declined: some(wire.MaxHosts, uint32(1))},
		&wire.Probe{Host: "a.example", Scheme: "http"}, &wire.ProbeReply{},
		&wire.JobRequest{Post: &wire.JobSpec{Id: fullJob, Seeds: some(wire.MaxSeeds, fullURL), Scope: some(wire.MaxScope, "a.example")}},
		&wire.JobRequest{List: true, Ask: some(wire.MaxAsk, fullJob)},
		&wire.JobReply{Jobs: each(wire.MaxJobList, func(int) *wire.Job { return &wire.Job{Spec: fullSpec(), State: 1, Version: 1, UpdatedMs: 1 << 40} })},
		&wire.JobReply{Jobs: []*wire.Job{{Spec: fullSpec(), Accounts: some(30_000, &wire.Account{
			Peer: fullPeer, PagesDrawn: 100, PagesUsed: 100, BytesDrawn: 1 << 20, BytesUsed: 1 << 20, HeardMs: 1 << 40,
		})}}},
		&wire.JobReply{Standings: some(wire.MaxAsk, &wire.JobStanding{Id: fullJob, State: 1, Version: 1})},
		&nodewire.Content{
			ClaimDigest: some(nodewire.MaxQuestions, fullHash), ClaimUrl: some(nodewire.MaxQuestions, fullURL), ConfirmDigest: some(nodewire.MaxQuestions, fullHash),
			ConfirmUrl: some(nodewire.MaxQuestions, fullURL), ConfirmRecord: some(nodewire.MaxQuestions, fullJob), ConfirmMs: some(nodewire.MaxQuestions, int64(1<<40)),
		},
		&nodewire.ContentReply{
			Verdict: make([]byte, nodewire.MaxQuestions), Url: some(nodewire.MaxQuestions, []byte{}), Record: some(nodewire.MaxQuestions, []byte{}),
			Peer: some(nodewire.MaxQuestions, []byte{}), DateMs: some(nodewire.MaxQuestions, int64(0)), Moved: some(nodewire.MaxQuestions, uint32(1)),
		},
		&nodewire.Proof{Key: fullHash, Digest: some(nodewire.MaxProofs, fullHash), Url: some(nodewire.MaxProofs, fullURL)},
		&nodewire.ProofReply{Proof: some(nodewire.MaxProofs, fullHash)},
		&nodewire.Records{
			Key: some(nodewire.MaxRecords, make([]byte, 24)), Value: some(nodewire.MaxRecords, make([]byte, 2)),
			NotePos: some(nodewire.MaxNotes, make([]byte, nodewire.PosSize)), Note: some(nodewire.MaxNotes, make([]byte, 100)),
		},
		&nodewire.Samples{
			Version: nodewire.SamplesVersion, Peer: some(nodewire.MaxSamplePeers, fullPeer), Host: some(nodewire.MaxSamples, []byte("a.example")),
			Site: some(nodewire.MaxSamples, []byte{}), Whole: make([]byte, nodewire.MaxSamples), Asked: some(nodewire.MaxSamples, uint32(1)),
			Of: some(nodewire.MaxSamples, uint32(1)), Measured: some(nodewire.MaxSamples, uint32(nodewire.MaxSampleRTTs)),
			By: some(nodewire.MaxSamples*nodewire.MaxSampleRTTs, uint32(1)), RttUs: some(nodewire.MaxSamples*nodewire.MaxSampleRTTs, uint32(1)),
			WorthPct: some(nodewire.MaxSamples, uint32(1)), Hops: some(nodewire.MaxSamples, uint32(1)),
		},
		&nodewire.Subnets{
			Kind: make([]byte, nodewire.MaxSubnets), Name: some(nodewire.MaxSubnets, []byte{}), Held: some(nodewire.MaxSubnets, uint64(1)),
			Record: some(nodewire.MaxSubnets, []byte{1}),
		},
		&nodewire.SubnetsReply{State: make([]byte, nodewire.MaxSubnets), Record: some(nodewire.MaxSubnets, []byte{}), Moved: some(nodewire.MaxSubnets, uint32(1))},
		&nodewire.Admission{
			Job: fullJob, Host: some(nodewire.MaxAdmissions, "a"),
		},
	}
}

// TestFullMessagesPass: what honest peers send is read as before, however full it is.
func TestFullMessagesPass(t *testing.T) {
	unraced(t)
	for i, m := range fullMessages() {
		name := fmt.Sprint(i, " ", m.ProtoReflect().Descriptor().Name())
		raw := marshal(t, "", m)
		if bounded, ok := m.(rpc.Message); ok {
			if err := bounded.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(raw) > calls.MaxPayload {
			t.Errorf("%s: %d bytes are no message", name, len(raw))
		}
		got := m.ProtoReflect().New().Interface()
		c, err := sizelimit.Count(raw, got)
		if err == nil {
			err = c.Unpack()
		}
		if err != nil || !proto.Equal(got, m) {
			t.Errorf("%s: %d bytes: %v", name, len(raw), err)
			continue
		}
		t.Logf("%s: %d bytes, %.1f times that of memory", name, len(raw), float64(c.Memory)/float64(len(raw)))
		_ = checkMemory(t, m.ProtoReflect().Type(), raw)
	}
}

// FuzzCount: whatever is counted as little is refused when it is unpacked, or takes no more than
// was counted.
func FuzzCount(f *testing.F) {
	for _, m := range fullMessages() {
		if raw, err := proto.Marshal(m); err == nil && len(raw) < 1<<16 {
			f.Add(uint8(0), raw)
		}
	}
	types := messages(f)
	for i, of := range types {
		for _, l := range lists(of.Descriptor()) {
			for _, raw := range full(l, 1<<10) {
				f.Add(uint8(i), raw) // a few dozen
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		of := types[int(i)%len(types)]
		plain, read := of.New().Interface(), of.New().Interface()
		err := checkMemory(t, of, raw)
		if err != nil {
			return
		}
		if err := sizelimit.Unmarshal(raw, read); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(raw, plain); err != nil || !bytes.Equal(marshal(t, "", plain), marshal(t, "", read)) {
			t.Errorf("%v is read as %v: %v", plain, read, err)
		}
	})
}

// TestCountedBeforeUnpacked: neither a handler nor a caller unpacks a message of empty parts.
func TestCountedBeforeUnpacked(t *testing.T) {
	raw := bytes.Repeat([]byte{2<<3 | 2, 0}, 2<<20) // Session.hosts
	says := rpc.Method[*wire.Session, *wire.Session]{Service: "x"}
	serve := says.Handle(rpc.Anyone(""), func(context.Context, peer.ID, *wire.Session) (*wire.Session, error) {
		t.Error("it was handled")
		return nil, nil
	})
	answers := rpc.CallerFunc(func(context.Context, peer.ID, string, []byte) ([]byte, error) { return raw, nil })
	for name, read := range map[string]func() error{
		"a request": func() error { _, err := serve.Handle(t.Context(), "p", raw); return err },
		"an answer": func() error { _, err := says.Call(t.Context(), answers, "p", new(wire.Session)); return err },
	} {
		var err error
		if took := taken(func() { err = read() }); took > 1<<20 || err == nil || !strings.Contains(err.Error(), "Session.hosts: 4097 ") {
			t.Errorf("%s: %d bytes, %v", name, took, err)
		}
	}
}

// TestLargeRequestsTakeTurns: of a peer's large requests one is handled at a time, those of others
// and small ones meanwhile; who does not wait any longer has no turn.
func TestLargeRequestsTakeTurns(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		large, small := marshal(t, "O", &wire.Offer{Hosts: some(wire.MaxHosts, strings.Repeat("a", 200))}), marshal(t, "O", &wire.Offer{})
		entered, leave := make(chan string, 10), make(chan struct{})
		serve := offers.Handle(rpc.Anyone(""), func(_ context.Context, from peer.ID, m *wire.Offer) (*wire.OfferReply, error) {
			entered <- fmt.Sprint(string(from), " ", len(m.GetHosts()))
			if len(m.GetHosts()) > 0 {
				<-leave
			}
			return &wire.OfferReply{}, nil
		})
		ask := func(ctx context.Context, from peer.ID, raw []byte) chan error {
			done := make(chan error, 1)
			go func() { _, err := serve.Handle(ctx, from, raw); done <- err }()
			synctest.Wait()
			return done
		}
		expect := func(want ...string) {
			t.Helper()
			got := []string{}
			for len(entered) > 0 {
				got = append(got, <-entered)
			}
			if !reflect.DeepEqual(got, append([]string{}, want...)) {
				t.Errorf("handled %v, want %v", got, want)
			}
		}
		first := ask(t.Context(), "a", large)
		expect("a 4096")
		second := ask(t.Context(), "a", large)
		ctx, giveUp := context.WithCancel(t.Context())
		third := ask(ctx, "a", large)
		expect()
		others, little := ask(t.Context(), "b", large), ask(t.Context(), "a", small)
		expect("b 4096", "a 0")
		giveUp()
		if err := <-third; err == nil {
			t.Error("who gave up had a turn")
		}
		leave <- struct{}{} // whose it is, the first of a or that of b, does not matter
		leave <- struct{}{}
		synctest.Wait()
		expect("a 4096")
		leave <- struct{}{}
		for _, done := range []chan error{first, second, others, little} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// BenchmarkCount sets the count beside what it goes before: reading a session of 64 hosts with 16
// outcomes each.
func BenchmarkCount(b *testing.B) {
	raw, err := proto.Marshal(&wire.Session{Hosts: some(64, &wire.HostWork{
		Host: "a.example", Epoch: fullEpoch, Fetched: some(16, &wire.Fetched{
			Job: fullJob, Url: fullURL, Outcome: 1, Status: 200, Digest: fullHash, RecordId: fullJob, Etag: `"some-tag"`, Mime: "text/html", FetchedMs: 1 << 40, Links: some(20, fullURL),
		}),
	})})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(m *wire.Session) error{
		"count":     func(m *wire.Session) error { _, err := sizelimit.Count(raw, m); return err },
		"unmarshal": func(m *wire.Session) error { return proto.Unmarshal(raw, m) },
		"both":      func(m *wire.Session) error { return sizelimit.Unmarshal(raw, m) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := read(new(wire.Session)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
