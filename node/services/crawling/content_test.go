package crawling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/storagetest"
)

var quietLog = slog.New(slog.DiscardHandler)

// unsynced is a keyspace of which each batch is written without a sync of its own.
type unsynced struct{ *storage.Keyspace }

// Update implements kv.Store.
func (u unsynced) Update(fn func(kv.Batch)) (wait func() error, err error) {
	return u.UpdateLazily(fn)
}

// byFirstByte gives each content key to one of the peers.
func byFirstByte(ids ...peer.ID) func(ring.Key) peer.ID {
	return func(key ring.Key) peer.ID { return ids[int(key[0])%len(ids)] }
}

// contentPeers are peers that ask each other about bodies.
func contentPeers(t *testing.T, owns func(ring.Key) peer.ID, ids ...peer.ID) (map[peer.ID]*Contents, *rpctest.Net) {
	t.Helper()
	net := rpctest.NewNet()
	list := make(map[peer.ID]*Contents)
	for _, id := range ids {
		r := &rpc.Router{Ring: &rpctest.Ring{Self: id, Believed: owns, Real: owns}, Net: net}
		c, err := NewContents(ContentsDeps{Records: unsynced{storagetest.New(t).Keyspace(storage.KeyspaceContent)}, Router: r, Self: id, Log: quietLog})
		if err != nil {
			t.Fatal(err)
		}
		list[id] = c
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
		})
	}
	for _, id := range ids {
		net.At(id, func(ctx context.Context, service string, req []byte) ([]byte, error) {
			if service != ServiceContent {
				return nil, rpc.Refuse("another service")
			}
			return list[id].Service().Handle(ctx, "asker", req)
		})
	}
	return list, net
}

func digestOf(i int) (d [32]byte) { return [32]byte(ring.KeyOf(fmt.Append(nil, "body", i))) }

const recordA = "urn:uuid:00000000-0000-4000-8000-000000000001"

// TestContentVerdicts: a body is new, then claimed, then known to all, whoever its owner is.
func TestContentVerdicts(t *testing.T) {
	ids := rpctest.NewPeers(t, 3)
	peers, net := contentPeers(t, byFirstByte(ids...), ids...)
	const bodies = 40
	claims := make([]pages.Question, bodies)
	var confirms []reports.Confirmation
	date := time.UnixMilli(1_700_000_000_000)
	for i := range claims {
		claims[i] = pages.Question{Digest: digestOf(i), URL: fmt.Sprintf("http://a.example/%d", i)}
		confirms = append(confirms, reports.Confirmation{Digest: digestOf(i), URL: claims[i].URL, RecordID: recordA, Date: date})
	}
	ask := func(who peer.ID, claims []pages.Question, confirms []reports.Confirmation) []dedup.Reply {
		answers, answered := peers[who].ask(t.Context(), claims, confirms)
		if slices.Contains(answered, false) {
			t.Error("a claim has no answer")
		}
		return answers
	}
	for i, a := range ask(ids[0], claims, nil) {
		if a.Verdict != dedup.New {
			t.Errorf("body %d, never met: %v", i, a.Verdict)
		}
	}
	if n := len(net.Called()); n != 2 {
		t.Errorf("%d calls for a batch over three owners of which one is the asker, want 2", n)
	}
	other := slices.Clone(claims)
	for i := range other {
		other[i].URL += "?mirror"
	}
	for i, a := range ask(ids[0], other, nil) {
		if a.Verdict != dedup.Wait {
			t.Errorf("body %d, claimed at another URL: %v", i, a.Verdict)
		}
	}
	ask(ids[0], nil, confirms)
	for i, a := range ask(ids[0], other, nil) {
		if a.Verdict != dedup.Known || a.Record.URL != claims[i].URL || a.Record.RecordID != recordA || !a.Record.Date.Equal(date) {
			t.Errorf("body %d, confirmed: %v, %+v", i, a.Verdict, a.Record)
		}
	}
}

// TestBodiesOfStrangers: who works for nobody learns nothing of bodies, and is not believed; a
// worker that is no member of the ring is.
func TestBodiesOfStrangers(t *testing.T) {
	ids := rpctest.NewPeers(t, 1)
	peers, _ := contentPeers(t, rpctest.OwnedBy(ids[0]), ids...)
	digest := digestOf(1)
	told := &wire.Content{
		ConfirmDigest: [][]byte{digest[:]}, ConfirmUrl: [][]byte{[]byte("http://a.example/")}, ConfirmRecord: [][]byte{make([]byte, 16)}, ConfirmMs: []int64{1},
	}
	for _, row := range []struct {
		gate rpc.Authorizer
		code calls.Code
		want dedup.Verdict
	}{
		{rpctest.Untrusted{}, calls.CodeBusy, dedup.New},
		{rpctest.Workers{Host: "b.example"}, calls.CodeBusy, dedup.New},
		{rpctest.Workers{Host: "a.example"}, 0, dedup.Known},
	} {
		serve := peers[ids[0]].Service().Behind(row.gate)
		via := rpc.CallerFunc(func(ctx context.Context, _ peer.ID, _ string, req []byte) ([]byte, error) {
			return serve(ctx, "asker", req)
		})
		if _, err := contentMethod.Call(t.Context(), via, ids[0], told); calls.CodeOf(err) != row.code {
			t.Errorf("%T: %v", row.gate, err)
		}
		asked := []pages.Question{{Digest: digest, URL: "http://c.example/"}}
		if got, _ := peers[ids[0]].ask(t.Context(), asked, nil); got[0].Verdict != row.want {
			t.Errorf("%T: the body is %v", row.gate, got[0].Verdict)
		}
	}
}

// TestWorkersTellSoMuch: of a worker that is no member so many bodies a second are taken, of others
// as many as they have.
func TestWorkersTellSoMuch(t *testing.T) {
	ids := rpctest.NewPeers(t, 1)
	peers, _ := contentPeers(t, rpctest.OwnedBy(ids[0]), ids...)
	told := &wire.Content{}
	for i := range wire.MaxQuestions {
		digest := digestOf(i)
		told.ClaimDigest, told.ClaimUrl = append(told.ClaimDigest, digest[:]), append(told.ClaimUrl, []byte("http://a.example/"))
	}
	taken := func(gate rpc.Authorizer, from peer.ID) (n int) {
		serve := peers[ids[0]].Service().Behind(gate)
		via := rpc.CallerFunc(func(ctx context.Context, _ peer.ID, _ string, req []byte) ([]byte, error) {
			return serve(ctx, from, req)
		})
		for range 20 {
			if _, err := contentMethod.Call(t.Context(), via, ids[0], told); err == nil {
				n++
			}
		}
		return n
	}
	if n := taken(rpctest.Workers{Host: "a.example"}, "greedy"); n < 4 || n > 6 {
		t.Errorf("a worker asked %d times at once", n)
	}
	if n := taken(rpctest.Workers{Host: "a.example"}, "other"); n < 4 {
		t.Errorf("another worker asked %d times", n)
	}
	if n := taken(rpctest.Members{}, "member"); n != 20 {
		t.Errorf("a member asked %d times of 20", n)
	}
}

// TestContentFindsOwners: a peer that knows nobody who owns a body, as one at home, looks for the
// owner, and of many bodies not for each.
func TestContentFindsOwners(t *testing.T) {
	ids := rpctest.NewPeers(t, 2)
	peers, net := contentPeers(t, rpctest.OwnedBy(ids[0]), ids[0])
	view := &rpctest.Ring{Self: ids[1], Believed: rpctest.OwnedBy(""), Real: rpctest.OwnedBy(ids[0])}
	home, err := NewContents(ContentsDeps{
		Records: unsynced{storagetest.New(t).Keyspace(storage.KeyspaceContent)}, Router: &rpc.Router{Ring: view, Net: net}, Self: ids[1], Log: quietLog,
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []reports.Confirmation
	var asked []pages.Question
	for i := range 100 {
		url := fmt.Sprintf("http://a.example/%d", i)
		told = append(told, reports.Confirmation{Digest: digestOf(i), URL: url, RecordID: recordA})
		asked = append(asked, pages.Question{Digest: digestOf(i), URL: url + "?"})
	}
	home.ask(t.Context(), nil, told)
	answers, _ := peers[ids[0]].ask(t.Context(), asked, nil)
	for i, a := range answers {
		if a.Verdict != dedup.Known {
			t.Errorf("body %d is %v", i, a.Verdict)
		}
	}
	if view.Lookups != 1 {
		t.Errorf("%d lookups", view.Lookups)
	}
}

// TestContentWithoutAnswer: whatever goes wrong with an owner, its bodies count as new, and the
// answers of the others stand.
func TestContentWithoutAnswer(t *testing.T) {
	for _, row := range []struct {
		name  string
		serve func(ctx context.Context) ([]byte, error)
		gone  bool
	}{
		{name: "hangs", serve: func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{name: "unreachable", serve: func(context.Context) ([]byte, error) { return nil, calls.ErrUnreachable }, gone: true},
		{name: "fails", serve: func(context.Context) ([]byte, error) { return nil, errors.New("disk") }},
		{name: "answers nonsense", serve: func(context.Context) ([]byte, error) { return []byte{0xff}, nil }},
		{name: "answers nothing", serve: func(context.Context) ([]byte, error) { return nil, nil }},
		{name: "answers too much", serve: func(context.Context) ([]byte, error) {
			return proto.Marshal(&wire.ContentReply{Verdict: make([]byte, 99), Url: make([][]byte, 99), Record: make([][]byte, 99), Peer: make([][]byte, 99), DateMs: make([]int64, 99)})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				net := rpctest.NewNet()
				net.At("bad", func(ctx context.Context, _ string, _ []byte) ([]byte, error) { return row.serve(ctx) })
				net.At("good", func(_ context.Context, _ string, raw []byte) ([]byte, error) {
					req := new(wire.Content)
					if err := proto.Unmarshal(raw, req); err != nil || req.Validate() != nil {
						return nil, rpc.Refuse("no question")
					}
					reply := &wire.ContentReply{}
					for range req.GetClaimDigest() {
						appendAnswer(reply, dedup.Reply{Verdict: dedup.Known, Record: dedup.Record{URL: "http://first.example/", RecordID: recordA}})
					}
					return proto.Marshal(reply)
				})
				owns := byFirstByte("bad", "good")
				view := &rpctest.Ring{Self: "me", Believed: owns, Real: owns}
				c := &Contents{Serial: loop.NewSerial(), deps: ContentsDeps{Router: &rpc.Router{Ring: view, Net: net}, Self: "me", Log: quietLog}}
				var claims []pages.Question
				for i := range 20 {
					claims = append(claims, pages.Question{Digest: digestOf(i), URL: "http://a.example/"})
				}
				begin := time.Now()
				answers, _ := c.ask(t.Context(), claims, nil)
				for i, a := range answers {
					d := digestOf(i)
					want := dedup.New
					if owns(ring.ContentKey(d[:])) == "good" {
						want = dedup.Known
					}
					if a.Verdict != want {
						t.Errorf("body %d: %v, want %v", i, a.Verdict, want)
					}
				}
				if took := time.Since(begin); took > contentTimeout {
					t.Errorf("took %v", took)
				}
				if (len(view.Gone) > 0) != row.gone {
					t.Errorf("told unreachable: %v", view.Gone)
				}
			})
		})
	}
}

// TestContentWithoutOwner: what nobody is believed to own is new.
func TestContentWithoutOwner(t *testing.T) {
	for _, believed := range []peer.ID{"", "me"} {
		c := &Contents{deps: ContentsDeps{Router: &rpc.Router{Ring: &rpctest.Ring{Self: "me", Believed: rpctest.OwnedBy(believed), Real: rpctest.OwnedBy("")}, Net: rpctest.NewNet()}, Self: "me", Log: quietLog}}
		if a, answered := c.ask(t.Context(), []pages.Question{{Digest: digestOf(1), URL: "u"}}, nil); a[0].Verdict != dedup.New || answered[0] {
			t.Errorf("believed owner %q: %v", believed, a[0].Verdict)
		}
	}
}

// TestContentMoved: the asker learns who serves keys that it asked the wrong peer about.
func TestContentMoved(t *testing.T) {
	ids := rpctest.NewPeers(t, 3)
	peers, net := contentPeers(t, rpctest.OwnedBy(ids[1]), ids...)
	view := peers[ids[0]].deps.Router.Ring.(*rpctest.Ring)
	view.Set(func() { view.Believed = rpctest.OwnedBy(ids[2]) })
	for _, want := range []peer.ID{ids[2], ids[1]} {
		peers[ids[0]].ask(t.Context(), []pages.Question{{Digest: digestOf(1), URL: "u"}}, nil)
		if got := net.Called(); got[len(got)-1] != want {
			t.Errorf("asked %v last, want %v", got, want)
		}
	}
}

// TestContentParts: a share is cut into messages that the other side accepts.
func TestContentParts(t *testing.T) {
	for _, row := range []struct{ claims, confirms, want int }{
		{1, 0, 1}, {0, 1, 1}, {wire.MaxQuestions, wire.MaxQuestions, 1}, {wire.MaxQuestions + 1, 0, 2}, {3, 2*wire.MaxQuestions + 1, 3},
	} {
		s := &share{claims: make([]int, row.claims), confirms: make([]int, row.confirms)}
		claims, confirms := 0, 0
		parts := s.parts()
		for _, p := range parts {
			claims, confirms = claims+len(p.claims), confirms+len(p.confirms)
			if len(p.claims) > wire.MaxQuestions || len(p.confirms) > wire.MaxQuestions {
				t.Errorf("%+v: a part of %d and %d", row, len(p.claims), len(p.confirms))
			}
		}
		if len(parts) != row.want || claims != row.claims || confirms != row.confirms {
			t.Errorf("%+v: %d parts of %d and %d", row, len(parts), claims, confirms)
		}
	}
}

// TestContentRefuses: what strangers send out of bounds is refused.
func TestContentRefuses(t *testing.T) {
	ids := rpctest.NewPeers(t, 1)
	peers, _ := contentPeers(t, rpctest.OwnedBy(ids[0]), ids[0])
	for _, row := range []struct {
		name string
		m    *wire.Content
	}{
		{"a short digest", &wire.Content{ClaimDigest: [][]byte{{1}}, ClaimUrl: [][]byte{[]byte("u")}}},
		{"columns of two lengths", &wire.Content{ClaimDigest: [][]byte{make([]byte, 32)}}},
		{"a short record", &wire.Content{ConfirmDigest: [][]byte{make([]byte, 32)}, ConfirmUrl: [][]byte{[]byte("u")}, ConfirmRecord: [][]byte{{1}}, ConfirmMs: []int64{1}}},
	} {
		raw, err := proto.Marshal(row.m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peers[ids[0]].Service().Handle(t.Context(), "x", raw); calls.CodeOf(err) != calls.CodeRefused {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestContentConfirmedOnDisk: whoever waits for a confirmation finds it after a crash; a batch that
// nobody waits for costs no sync.
func TestContentConfirmedOnDisk(t *testing.T) {
	disk := storagetest.NewDisk()
	open := func(d *storagetest.Disk) *dedup.Content {
		state, err := dedup.NewContent(unsynced{d.Open(t).Keyspace(storage.KeyspaceContent)})
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	state := open(disk)
	batch := make([]dedup.Confirmation, 20)
	for i := range batch {
		batch[i] = dedup.Confirmation{Key: dedup.Key(digestOf(i)), Record: dedup.Record{URL: "http://a.example/", RecordID: recordA}}
	}
	wait, err := state.ConfirmAll(batch)
	if err != nil {
		t.Fatal(err)
	}
	unwaited := disk.Crash()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		disk *storagetest.Disk
		want int
	}{{"nobody waited", unwaited, 0}, {"waited for", disk.Crash(), len(batch)}} {
		n := 0
		if err := row.disk.Open(t).Keyspace(storage.KeyspaceContent).Scan(nil, nil, func(_, _ []byte) bool { n++; return true }); err != nil || n != row.want {
			t.Errorf("%s: %d records after a crash, %v; want %d", row.name, n, err, row.want)
		}
	}
}
