package crawling

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/storagetest"
	"github.com/apoidea/apoidea/storage/warc"
)

// keeper is a peer with an archive.
type keeper struct {
	*Bodies
	archive *archive
	pack    warc.Compression
}

func newKeeper(t *testing.T, id peer.ID, net *rpctest.Net) *keeper {
	t.Helper()
	return keeperOf(t, id, net, warc.Gzip)
}

func keeperOf(t *testing.T, id peer.ID, net *rpctest.Net, pack warc.Compression) *keeper {
	t.Helper()
	k := &keeper{pack: pack, Bodies: NewBodies(BodiesDeps{
		Space: storagetest.New(t).Keyspace(storage.KeyspaceBodies), Dir: t.TempDir(), Self: id, Caller: net, Log: quietLog,
	})}
	k.open(t)
	t.Cleanup(func() { _ = k.archive.writer.Close() })
	net.At(id, func(ctx context.Context, service string, req []byte) ([]byte, error) {
		if service != ServiceBodies {
			return nil, rpc.Refuse("another service")
		}
		return k.Service().Handle(ctx, "asker", req)
	})
	return k
}

func (k *keeper) open(t *testing.T) {
	t.Helper()
	var err error
	if k.archive, err = openArchive(k.deps.Dir, warc.Config{Compression: k.pack, MaxSize: 4 << 10, Prefix: "test"}, k.Bodies); err != nil {
		t.Fatal(err)
	}
}

// save archives pages, and returns how others would be told of them.
func (k *keeper) save(t *testing.T, bodies ...string) (list []dedup.Reply) {
	t.Helper()
	for _, body := range bodies {
		x := exchangeOf(body)
		id, err := k.archive.Save(x)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, known(k.deps.Self, x.URL, id))
	}
	if err := k.archive.Sync(); err != nil {
		t.Fatal(err)
	}
	return list
}

func exchangeOf(body string) *pages.Exchange {
	return &pages.Exchange{
		URL: fmt.Sprintf("http://a.example/%x", sha256.Sum256([]byte(body))), Date: time.Unix(1e9, 0), Protocol: "http/1.1",
		RequestHead: []byte("GET / HTTP/1.1\r\n\r\n"), ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte(body), Digest: sha256.Sum256([]byte(body)),
	}
}

func known(holder peer.ID, url, id string) dedup.Reply {
	return dedup.Reply{Verdict: dedup.Known, Record: dedup.Record{URL: url, Peer: string(holder), RecordID: id, Date: time.Unix(1e9, 0)}}
}

// check has a peer look at what it is told of bodies, and returns what it believes.
func (k *keeper) check(t *testing.T, told []dedup.Reply, bodies ...string) []dedup.Reply {
	t.Helper()
	var questions []pages.Question
	for i, body := range bodies {
		questions = append(questions, pages.Question{Digest: sha256.Sum256([]byte(body)), URL: fmt.Sprintf("http://b.example/%d", i), Body: []byte(body)})
	}
	answers := append([]dedup.Reply(nil), told...)
	k.believe(t.Context(), questions, answers)
	return answers
}

func manyBodies(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("<p>page %d", i)+strings.Repeat(" and more", i))
	}
	return list
}

// TestBodiesAreShown: of the bodies that a peer is said to have, those are known that it has, over
// all of its files, the one that is being written included, and after a restart.
func TestBodiesAreShown(t *testing.T) {
	for _, pack := range []warc.Compression{warc.None, warc.Gzip, warc.Zstd} {
		t.Run(fmt.Sprint(pack), func(t *testing.T) {
			net := rpctest.NewNet()
			holder, asker := keeperOf(t, "holder", net, pack), newKeeper(t, "asker", net)
			bodies := manyBodies(150)
			told := holder.save(t, bodies[:100]...)
			for _, body := range bodies[100:] {
				told = append(told, known("holder", exchangeOf(body).URL, recordA))
			}
			for i, a := range asker.check(t, told, bodies...) {
				if want := i < 100; (a.Verdict == dedup.Known) != want || want && a.Record != told[i].Record {
					t.Errorf("body %d: %v, %+v", i, a.Verdict, a.Record)
				}
			}
			if n := len(net.Called()); n != 3 {
				t.Errorf("%d calls for 150 bodies", n)
			}
			asker.check(t, told[:100], bodies[:100]...)
			if n := len(net.Called()); n != 3 {
				t.Error("what was shown is asked for again")
			}
			if err := holder.archive.writer.Close(); err != nil {
				t.Fatal(err)
			}
			holder.Bodies = NewBodies(holder.deps)
			holder.open(t)
			again := newKeeper(t, "again", net)
			for i, a := range again.check(t, told[:100], bodies[:100]...) {
				if a.Verdict != dedup.Known {
					t.Errorf("body %d after a restart: %v", i, a.Verdict)
				}
			}
		})
	}
}

// TestNobodyIsBelieved: who says that it has a body, or is said to have it, and does not, or has
// another answer for it, is not believed.
func TestNobodyIsBelieved(t *testing.T) {
	net := rpctest.NewNet()
	honest, asker := newKeeper(t, "honest", net), newKeeper(t, "asker", net)
	bodies := manyBodies(3)
	honest.save(t, bodies...)
	net.At("relay", func(ctx context.Context, service string, req []byte) ([]byte, error) {
		return net.Call(ctx, "honest", service, req)
	})
	net.At("nonsense", func(context.Context, string, []byte) ([]byte, error) { return []byte{0xff}, nil })
	newKeeper(t, "empty", net)
	for _, holder := range []peer.ID{"empty", "relay", "nonsense", "asker"} {
		var told []dedup.Reply
		for range bodies {
			told = append(told, known(holder, "http://a.example/", recordA))
		}
		for i, a := range asker.check(t, told, bodies...) {
			if a.Verdict != dedup.New {
				t.Errorf("%s, body %d: %v", holder, i, a.Verdict)
			}
		}
	}
	// The file was mended, and another record lies where the body was.
	place, _, err := honest.deps.Space.Get(sum(bodies[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := honest.deps.Space.UpdateNoSync(func(b kv.Batch) { b.Set(sum(bodies[1]), place) }); err != nil {
		t.Fatal(err)
	}
	told := []dedup.Reply{known("honest", "http://a.example/", recordA), known("honest", "http://a.example/", recordA)}
	if a := asker.check(t, told, bodies[1], bodies[2]); a[0].Verdict != dedup.New || a[1].Verdict != dedup.Known {
		t.Errorf("after its file was mended: %v, %v", a[0].Verdict, a[1].Verdict)
	}
}

func sum(body string) []byte {
	digest := sha256.Sum256([]byte(body))
	return digest[:]
}

// TestOwnBodiesFirst: a reference leads to the peer's own archive where the body is there, as long
// as its file is.
func TestOwnBodiesFirst(t *testing.T) {
	net := rpctest.NewNet()
	holder, asker := newKeeper(t, "holder", net), newKeeper(t, "asker", net)
	bodies := manyBodies(2)
	told := holder.save(t, bodies...)
	mine := asker.save(t, bodies[0])
	got := asker.check(t, told, bodies...)
	if got[0].Verdict != dedup.Known || got[0].Record.RecordID != mine[0].Record.RecordID || !got[0].Record.Date.Equal(mine[0].Record.Date) {
		t.Errorf("%+v, want that of its own archive", got[0])
	}
	if got[1].Record.RecordID != told[1].Record.RecordID || len(net.Called()) != 1 {
		t.Errorf("%+v after %d calls", got[1], len(net.Called()))
	}
	files, _ := filepath.Glob(filepath.Join(holder.deps.Dir, "*.warc.gz*"))
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range newKeeper(t, "later", net).check(t, told, bodies...) {
		if a.Verdict != dedup.New {
			t.Errorf("body %d, whose file was taken away: %v", i, a.Verdict)
		}
	}
}

// TestSilentHolders: a holder that does not answer holds up one question a minute, for a second.
func TestSilentHolders(t *testing.T) {
	for _, row := range []struct {
		name  string
		serve rpctest.Serve
		takes time.Duration
	}{
		{"hangs", func(ctx context.Context, _ string, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }, proofTime},
		{"unreachable", func(context.Context, string, []byte) ([]byte, error) { return nil, calls.ErrUnreachable }, 0},
		{"of an earlier version", func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("no such protocol") }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			net := rpctest.NewNet()
			asker := newKeeper(t, "asker", net)
			net.At("gone", row.serve)
			told := []dedup.Reply{known("gone", "http://a.example/", recordA)}
			begin := time.Now()
			for range 10 {
				if a := asker.check(t, told, "body"); a[0].Verdict != dedup.New {
					t.Errorf("the body is %v", a[0].Verdict)
				}
			}
			if took := time.Since(begin); took < row.takes || took > 5*proofTime || len(net.Called()) != 1 {
				t.Errorf("%d calls, %v", len(net.Called()), took)
			}
			asker.silent.Add("gone", time.Now()) // the minute is over
			asker.check(t, told, "body")
			if len(net.Called()) != 2 {
				t.Error("it is never asked again")
			}
		})
	}
}

// TestHoldersWithoutEnd: an owner of digests that names another holder for each body has a few of
// them asked, and holds nobody up for longer than one that is silent.
func TestHoldersWithoutEnd(t *testing.T) {
	net := rpctest.NewNet()
	asker := newKeeper(t, "asker", net)
	var asked atomic.Int32
	bodies := manyBodies(wire.MaxQuestions)
	var told []dedup.Reply
	for i := range bodies {
		id := peer.ID(fmt.Sprint("holder ", i))
		told = append(told, known(id, "http://a.example/", recordA))
		net.At(id, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			asked.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}
	begin := time.Now()
	for i, a := range asker.check(t, told, bodies...) {
		if a.Verdict != dedup.New {
			t.Fatalf("body %d is %v", i, a.Verdict)
		}
	}
	if took := time.Since(begin); took > 5*proofTime || asked.Load() != maxHolders {
		t.Errorf("%d holders were asked, in %v", asked.Load(), took)
	}
	silent := 0
	for i := range told {
		if asker.silent.Contains(peer.ID(told[i].Record.Peer)) {
			silent++
		}
	}
	if silent != maxHolders {
		t.Errorf("%d holders count as silent", silent)
	}
}

// TestBodiesForStrangers: bodies are shown to workers alone.
func TestBodiesForStrangers(t *testing.T) {
	net := rpctest.NewNet()
	holder := newKeeper(t, "holder", net)
	told := holder.save(t, "body")
	for _, row := range []struct {
		gate rpc.Authorizer
		want dedup.Verdict
	}{{rpctest.Untrusted{}, dedup.New}, {rpctest.Workers{Host: "a.example"}, dedup.New}, {rpctest.Workers{Host: "b.example"}, dedup.Known}} {
		serve := holder.Service().Behind(row.gate)
		net.At("holder", func(ctx context.Context, _ string, req []byte) ([]byte, error) { return serve(ctx, "asker", req) })
		if a := newKeeper(t, "asker", net).check(t, told, "body"); a[0].Verdict != row.want {
			t.Errorf("%+v: %v", row.gate, a[0].Verdict)
		}
	}
}
