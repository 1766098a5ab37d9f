package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/rpc"
)

var updateCallers = flag.Bool("update-callers", false, "rewrite the table of callers in docs/threats.md")

// TestCallers: the table in docs/threats.md equals that of the services. Run with -update-callers
// to rewrite it.
func TestCallers(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/threats.md", "<!-- callers: made by node, TestCallers -->\n", "<!-- end of callers -->\n"
	p := startPeer(t, t.TempDir(), 1)
	var table bytes.Buffer
	fmt.Fprint(&table, "\n| service | request | caller | checks |\n| --- | --- | --- | --- |\n")
	for _, s := range p.services() {
		s.service().Rules(func(request string, who rpc.Who) {
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", s.name, request, who.Caller, who.Asked)
		})
	}
	table.WriteString("\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	old, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		t.Fatalf("%s has no place for the table: %q and %q", path, begin, end)
	}
	if *updateCallers {
		if err := os.WriteFile(path, slices.Concat(before, []byte(begin), table.Bytes(), []byte(end), after), 0o644); err != nil { // a document
			t.Fatal(err)
		}
	} else if !bytes.Equal(old, table.Bytes()) {
		t.Errorf("the table in %s is not that of the services; write it by: go test ./node -run TestCallers -update-callers", path)
	}
}

// TestRefusedIsTold: what a peer refuses another is told with the reason, also of strangers, and
// those who were refused long ago make room.
func TestRefusedIsTold(t *testing.T) {
	t.Parallel()
	p := startPeer(t, t.TempDir(), 1)
	service := rpc.Raw("Thing", rpc.Anyone("nothing"), func(_ context.Context, _ peer.ID, raw []byte) ([]byte, error) {
		return nil, rpc.Refuse("%s is not had", raw)
	})
	near := rpc.Raw("Near", rpc.Members("nothing"), func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, nil })
	for range 3 {
		_, _ = service.Behind(p.authorizer)(t.Context(), "one", []byte("cake\x1b[1m"))
	}
	if _, err := near.Behind(p.authorizer)(t.Context(), "two", nil); calls.CodeOf(err) != calls.CodeBusy {
		t.Errorf("an untrusted peer as a member: %v", err)
	}
	list, err := p.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Refused == nil || list[0].Refused.Requests != 3 || !strings.Contains(list[0].Refused.Why, `cake\x1b[1m is not had`) ||
		list[1].Refused.Request != "Near" || list[1].Role != "untrusted" {
		t.Errorf("%+v", list)
	}
	for i := range 2 * maxTurned {
		p.authorizer.count(peer.ID(fmt.Sprint(i)), "Thing", errors.New("no"))
	}
	if n := len(p.authorizer.refused()); n != maxTurned {
		t.Errorf("%d peers are remembered", n)
	}
}

// TestMembers: a peer of the ring is known as one before it is a neighbour, by a lookup, and for a
// while after it left; an identity of no ring is none, and costs a lookup now and then at most.
func TestMembers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := startPeer(t, dir+"/a", 1)
	b := startPeer(t, dir+"/b", 2, a.ring.net.Addrs()[0])
	settle(t, []*testPeer{a, b})
	asks := &countingRing{Ring: a.router.Ring}
	g := newAuthorizer(a.ring, &rpc.Router{Ring: asks, Net: a.ring.net})
	if !g.Member(t.Context(), b.ring.net.Self()) || !g.Member(t.Context(), a.ring.net.Self()) || asks.lookups != 0 {
		t.Errorf("neighbours are no members, or cost %d lookups", asks.lookups)
	}
	for range 100 {
		if g.Member(t.Context(), "stranger") {
			t.Fatal("a stranger is a member")
		}
	}
	if asks.lookups > 3 {
		t.Errorf("%d lookups for one stranger", asks.lookups)
	}
	g.remember(question{id: "far"}, standing{yes: true, until: time.Now().Add(time.Hour)})
	for i := range 2 * maxStandings {
		g.remember(question{id: peer.ID(fmt.Sprint(i))}, standing{until: time.Now().Add(time.Hour)})
	}
	if n := len(g.standings); n > maxStandings || !g.Member(t.Context(), "far") {
		t.Errorf("%d standings are kept, and a member's is not among them", n)
	}
	for i := range 2 * maxStandings {
		g.remember(question{id: peer.ID(fmt.Sprint(i))}, standing{yes: true, until: time.Now().Add(time.Hour)})
	}
	if n := len(g.standings); n > maxStandings {
		t.Errorf("%d standings of members are kept", n)
	}
	leaf := map[string]bool{} // who has only called, and who has answered
	g.leaf = func(id peer.ID) (is, proven bool) {
		proven, is = leaf[string(id)]
		return is, proven
	}
	leaf["called"], leaf["answered"] = false, true
	for id, is := range map[peer.ID]bool{"called": false, "answered": true} {
		if g.neighbor(id) != is || g.near(string(id)) != is || g.Member(t.Context(), id) != is {
			t.Errorf("who has %s: neighbour %v, near %v", id, g.neighbor(id), g.near(string(id)))
		}
		delete(leaf, string(id))
		if g.left(id, is); g.neighbor(id) != is {
			t.Errorf("who had %s, and left: neighbour %v", id, !is)
		}
	}
	service := rpc.Raw("Thing", rpc.Members("nothing"), func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, nil })
	if _, err := service.Behind(a.authorizer)(t.Context(), "stranger", nil); calls.CodeOf(err) != calls.CodeBusy {
		t.Errorf("a stranger asks for what is for members: %v", err)
	}
	if _, err := service.Behind(a.authorizer)(t.Context(), b.ring.net.Self(), nil); err != nil {
		t.Errorf("a member asks: %v", err)
	}
}

// TestCrowdsWaitForEachOther: however many callers of one network are to be confirmed, and however
// long that takes, others are.
func TestCrowdsWaitForEachOther(t *testing.T) {
	peers := startRing(t, 2)
	crowd := make(map[ring.Key]bool)
	asks := stuckRing{peers[0].router.Ring, crowd}
	g := newAuthorizer(peers[0].ring, &rpc.Router{Ring: asks, Net: peers[0].ring.net})
	g.origin = func(id peer.ID) string {
		if crowd[ring.PeerKey([]byte(id))] {
			return "192.0.2.0/24"
		}
		return ""
	}
	var ids []peer.ID
	for i := range 10 * maxConfirming {
		ids = append(ids, peer.ID(fmt.Sprint("crowd ", i)))
		crowd[ring.PeerKey([]byte(ids[i]))] = true
	}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, id := range ids {
		callers.Go(func() {
			if g.Member(ctx, id) {
				t.Errorf("%s is a member", id)
			}
		})
	}
	until(t, "the crowd is looked up", func(context.Context) bool { return len(g.confirming) == maxConfirming/2 })
	within, end := context.WithTimeout(t.Context(), confirmTime/4)
	defer end()
	if g.Member(within, "another"); g.standings[question{id: "another"}].until.IsZero() {
		t.Error("another caller found no turn")
	}
	cancel()
	callers.Wait()
	if len(g.confirming) > 0 || len(g.crowds) > 0 {
		t.Errorf("%d turns and %v are left", len(g.confirming), g.crowds)
	}
}

// stuckRing answers no lookup of these keys.
type stuckRing struct {
	rpc.Ring
	stuck map[ring.Key]bool
}

func (r stuckRing) Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error) {
	if r.stuck[key] {
		<-ctx.Done()
		return dht.Lookup{}, ctx.Err()
	}
	return r.Ring.Lookup(ctx, key)
}

// TestOffersAreOfOwners: a worker is asked to take hosts by whom the ring says to own them, a
// lookup an arc at most, and declines those of another.
func TestOffersAreOfOwners(t *testing.T) {
	t.Parallel()
	peers := startRing(t, 3)
	a, b := peers[0], peers[1]
	mine := make(map[bool][]string)            // hosts of a, and of others
	for i := 0; i < 64 || len(mine) < 2; i++ { // an arc may be small
		host := fmt.Sprintf("h%d.example", i)
		own := a.router.Ring.Serves(ring.HostKey(host))
		mine[own] = append(mine[own], host)
	}
	mine[false] = mine[false][:min(len(mine[false]), 64)]
	offered := slices.Concat(mine[false], mine[true])
	var reply *crawlwire.OfferReply
	until(t, "an answer", func(ctx context.Context) (ok bool) { // a busy machine may answer too late
		var err error
		reply, err = hosts.OfferMethod.Call(ctx, a.router, b.ring.net.Self(), &crawlwire.Offer{Hosts: offered})
		return err == nil
	})
	if len(reply.GetDeclined()) != len(mine[false]) || slices.Max(reply.GetDeclined()) != uint32(len(mine[false])-1) {
		t.Errorf("of %d hosts, the last %d its own, %v are declined", len(offered), len(mine[true]), reply.GetDeclined())
	}

	asks := &countingRing{Ring: b.router.Ring}
	g := newAuthorizer(b.ring, &rpc.Router{Ring: asks, Net: b.ring.net})
	keys := make([]ring.Key, 4*maxArcs)
	for i := range keys {
		keys[i] = ring.HostKey(fmt.Sprintf("h%d.example", i))
	}
	own := g.Owns(t.Context(), a.ring.net.Self(), keys)
	if asks.lookups != maxArcs {
		t.Errorf("%d lookups for one request", asks.lookups)
	}
	for i := range keys[:maxArcs] {
		if own[i] != a.router.Ring.Serves(keys[i]) {
			t.Errorf("key %d: %v", i, own[i])
		}
	}
}

// TestVouching: the owner of a host says who its worker was, and nobody else is taken for one. So a
// worker at home, which serves no part of the ring, is believed of the bodies that it has archived.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestVouching(t *testing.T) {
	t.Parallel()
	web := serveWeb(t, nil)
	peers := startRing(t, 2)
	cfg := testConfig(t.TempDir(), 3, peers[0].ring.net.Addrs()[0])
	cfg.Reachability = "private"
	home := startWith(t, cfg)
	until(t, "the worker is attached", func(context.Context) bool {
		return !slices.ContainsFunc(peers, func(p *testPeer) bool {
			return !slices.ContainsFunc(p.ring.dht.Attached(), func(w dht.Peer) bool { return w.ID == home.ring.net.Self() })
		})
	})
	for _, p := range peers {
		if _, err := p.Pause(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	crawlAll(t, peers[0], control.JobSpec{URLs: web.Seeds(web.port)[:2]})
	bodies := make(map[string][]pages.Question) // of hosts, as others meet them elsewhere
	for _, url := range webtruth.Of(web, webtruth.Walk{Port: web.port, MaxDepth: -1}).URLs {
		answer := httptest.NewRecorder()
		web.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
		if body := answer.Body.Bytes(); answer.Code == http.StatusOK && len(body) > 0 {
			host := link.Host(url)
			bodies[host] = append(bodies[host], pages.Question{Digest: sha256.Sum256(body), URL: url + "?", Body: body})
		}
	}
	var asked []pages.Question
	if err := peers[0].Hosts(t.Context(), true, func(h control.HostLine) error {
		worker, err := peer.Decode(h.PlacedAt)
		for _, p := range peers {
			var asks *countingRing
			var fresh *authorizer
			these := func() []string { return []string{"never.example", h.Host} }
			until(t, h.Host+", crawled by "+h.PlacedAt+", is vouched for", func(ctx context.Context) bool { // a busy owner may answer too late
				asks = &countingRing{Ring: p.router.Ring}
				fresh = newAuthorizer(p.ring, &rpc.Router{Ring: asks, Net: p.ring.net})
				return fresh.Works(ctx, worker, these)
			})
			for range 100 {
				if !fresh.Works(t.Context(), worker, these) {
					t.Fatalf("%s, crawled by %s: not vouched for", h.Host, h.PlacedAt)
				}
			}
			if worker == home.ring.net.Self() && asks.lookups > 1+maxVouching || fresh.Works(t.Context(), "another", these) {
				t.Errorf("%s, crawled by %s: %d lookups, or another is vouched for", h.Host, h.PlacedAt, asks.lookups)
			}
		}
		if worker == home.ring.net.Self() {
			asked = append(asked, bodies[h.Host]...)
		}
		return err
	}); err != nil || len(asked) == 0 {
		t.Fatalf("%d pages were crawled from home: %v", len(asked), err)
	}
	k := permit.Address(netip.MustParseAddr("127.0.0.1"))
	if n, _, err := home.permits.Ask(t.Context(), permit.Ask{Key: k, Want: 1, Host: link.Host(asked[0].URL)}); err != nil || n != 1 {
		t.Errorf("the worker at home gets %d permits for its host: %v", n, err)
	}
	// Both a worker and a member say that they have a page which they do not have.
	lie := pages.Question{Digest: sha256.Sum256([]byte("never")), URL: "http://" + link.Host(asked[0].URL) + "/never", Body: []byte("never")}
	for _, p := range []*testPeer{home, peers[0]} {
		if err := p.contents.Confirm(t.Context(), []reports.Confirmation{{Digest: lie.Digest, URL: lie.URL, RecordID: "urn:uuid:00000000-0000-4000-8000-000000000001", Date: time.Now()}}); err != nil {
			t.Error(err)
		}
	}
	var answers []pages.Answer
	until(t, "the bodies archived at home are known", func(ctx context.Context) bool {
		var err error
		answers, err = peers[1].contents.Claim(ctx, append(asked, lie))
		return err == nil && !slices.ContainsFunc(answers[:len(asked)], func(a pages.Answer) bool { return a.Verdict != pages.Known })
	})
	if got := answers[len(asked)].Verdict; got != pages.Fresh {
		t.Errorf("a body that nobody has is %v", got)
	}
}

// countingRing counts lookups.
type countingRing struct {
	rpc.Ring
	lookups int
}

func (r *countingRing) Guess(ring.Key) (dht.Peer, bool) { return dht.Peer{}, false }

func (r *countingRing) Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error) {
	r.lookups++
	return r.Ring.Lookup(ctx, key)
}

// TestStrangersShareMemory: what strangers' large requests take unpacked is bounded, whoever they
// are; members do not wait for it, and who gives up has nothing.
func TestStrangersShareMemory(t *testing.T) {
	p := startPeer(t, t.TempDir(), 1)
	g := p.authorizer
	hour := time.Now().Add(time.Hour)
	g.remember(question{id: "member"}, standing{yes: true, until: hour})
	for i := range 8 {
		g.remember(question{id: peer.ID(fmt.Sprint(i))}, standing{until: hour})
	}
	var done []func()
	for i := range 4 {
		d, err := g.Unpacks(t.Context(), peer.ID(fmt.Sprint(i)), strangersMemory/4)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := g.Unpacks(ctx, "5", 1); err == nil {
		t.Error("a stranger finds memory that others have")
	}
	for _, id := range []peer.ID{"member", p.ring.net.Self()} {
		if d, err := g.Unpacks(t.Context(), id, 1<<30); err != nil {
			t.Errorf("%s: %v", id, err)
		} else {
			d()
		}
	}
	for _, d := range done {
		d()
	}
	if d, err := g.Unpacks(t.Context(), "6", 1<<30); err != nil {
		t.Errorf("one that takes more than there is: %v", err)
	} else {
		d()
	}
}

// TestRefusalsTakeTime: who asks for what is not theirs as fast as may be is answered late, and
// takes no time of others.
func TestRefusalsTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turned, _ := simplelru.NewLRU[peer.ID, *refusals](maxTurned, nil)
		g := &authorizer{leaf: func(id peer.ID) (is, proven bool) { return id == "friend", true }, turned: turned, standings: make(map[question]standing), refusing: rate.NewLimiter(refusalRate, refusalRate)}
		begun := time.Now()
		for range 2 * refusalRate {
			g.Rejected("stranger", "Thing", errors.New("no"))
		}
		if took := time.Since(begun); took < 500*time.Millisecond {
			t.Errorf("a stranger was refused %d requests in %v", 2*refusalRate, took)
		}
		begun = time.Now()
		for range 2 * refusalRate {
			g.Rejected("friend", "Thing", errors.New("no"))
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("a neighbour waited for %v", took)
		}
	})
}
