package records

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/subnets"
	"github.com/apoidea/apoidea/storage"
)

// keeper is a copier with owners of hosts, jobs, bodies and subnets, whose records move with the
// ring.
type keeper struct {
	*copier
	keeping  *Keeping
	owners   *hosts.Owners
	jobs     *jobs.Service
	contents *crawling.Contents
	subnets  *subnets.Service
	// leases is told when leases of a peer that is gone end; it may be nil.
	leases  func(id peer.ID, end time.Time)
	texts   *texts       // what it told of moves
	settled atomic.Int64 // how often an arc of it settled
}

// texts gathers lines.
type texts struct {
	mu   sync.Mutex
	list []string
}

func (l *texts) tell(e control.RingEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e.Text)
}

func (l *texts) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// keepers is a ring of them.
type keepers struct {
	net    *wires
	circle *circle
	spec   *job.Spec
	peers  map[peer.ID]*keeper
	// what was put into the ring: positions by kind
	put map[byte]map[ring.Pos]bool
}

var quietLog = slog.New(slog.DiscardHandler)

const keeperTTL = 8 * time.Second

// newKeepers starts a ring; hosts, jobs and bodies are spread over it.
func newKeepers(t *testing.T, each int, ids ...peer.ID) *keepers {
	t.Helper()
	w := &keepers{net: newWires(), circle: &circle{}, spec: crawltest.Job(t, nil, "http://a.example/"), peers: make(map[peer.ID]*keeper)}
	w.put = map[byte]map[ring.Pos]bool{}
	for _, space := range replicated {
		w.put[space.Prefix] = make(map[ring.Pos]bool)
	}
	w.circle.set(ids...)
	for _, id := range ids {
		w.start(t, id)
	}
	w.rest()
	for i := range each {
		w.addHost(t, fmt.Sprintf("h%d.example", i), 3)
		w.addJob(t)
		w.addBody(t, i)
		w.addSubnet(t, i)
	}
	return w
}

// start adds a peer, which is yet to be put into the circle.
func (w *keepers) start(t *testing.T, id peer.ID, change ...func(*Replication)) *keeper {
	t.Helper()
	p := &keeper{copier: newCopier(t, w.net, w.circle, id, change...), texts: new(texts)}
	r := &rpc.Router{Ring: p.seat, Net: line{w.net, id}}
	p.keeping = keepingOf(p.watch, r, p.ship, keeperTTL)
	p.keeping.movement.tell = p.texts.tell
	p.keeping.settled = func() { p.settled.Add(1) }
	bodies := p.ship.LazySpace(storage.KeyspaceContent)
	var err error
	if p.contents, err = crawling.NewContents(crawling.ContentsDeps{Records: bodies, Router: r, Self: id, Log: quietLog}); err != nil {
		t.Fatal(err)
	}
	if p.subnets, err = subnets.NewService(p.ship.Space(storage.KeyspaceSubnets), r, quietLog); err != nil {
		t.Fatal(err)
	}
	serves := func(id job.ID) error {
		if key := ring.JobKey(id.String()); !p.seat.Serves(key) {
			return r.Moved(key)
		}
		return nil
	}
	p.jobs = jobs.NewService(jobs.ServiceDeps{Store: p.space(storage.KeyspaceJobs), Serves: serves, Log: quietLog})
	ends := hosts.LeasesEnd(p.watch.LeftAgo, keeperTTL, time.Now)
	if p.owners, err = hosts.New(owner.DefaultConfig(string(id)), hosts.Deps{
		Self: id, Router: r, Store: p.ship.Space(storage.KeyspaceHosts), Now: time.Now, Jobs: crawltest.OneJob{Spec: w.spec}, Log: quietLog,
		Place: func(ctx context.Context, _ owner.Place) owner.Placement {
			<-ctx.Done() // there are no workers
			return owner.Placement{}
		},
		LeasesEnd: func(id peer.ID, told time.Duration) time.Time {
			end := ends(id, told)
			if p.leases != nil {
				p.leases(id, end)
			}
			return end
		},
	}); err != nil {
		t.Fatal(err)
	}
	p.keeping.Add(storage.KeyspaceHosts, p.owners.Mover(), p.owners.OnLoop)
	p.keeping.AddService(storage.KeyspaceJobs, p.jobs.Serial, p.jobs.State, p.jobs.Imported)
	p.keeping.AddService(storage.KeyspaceContent, p.contents.Serial, p.contents.State, nil)
	p.keeping.AddService(storage.KeyspaceSubnets, p.subnets.Serial, p.subnets, nil)
	p.keeping.came = p.owners.RecordsCame
	stopShip := p.stop
	stopRest := background(t, p.jobs.Run, p.contents.Run, p.subnets.Run, p.runOwners, p.keeping.Run)
	var o *owner.Owner
	if err := p.owners.Do(t.Context(), func(state *owner.Owner) { o = state }); err != nil {
		t.Fatal(err)
	}
	p.stop = func() {
		stopShip()
		stopRest()
		if err := ownertest.Check(o); err != nil {
			t.Errorf("books of %s: %v", id, err)
		}
	}
	p.serve(w.net)
	w.peers[id] = p
	return p
}

func (p *keeper) runOwners(ctx context.Context) error {
	return loop.UnlessStopping(p.owners.Run(ctx))
}

func (p *keeper) serve(net *wires) {
	net.at(p.id, map[string]calls.Handler{ServiceReplica: p.ship.Handle, ServiceRecords: p.keeping.Service().Handle, ServicePull: p.keeping.PullService().Handle, subnets.ServiceSubnets: p.subnets.Service().Handle})
}

// set has the ring be another; nobody was told yet that looks at it by itself.
func (w *keepers) set(ids ...peer.ID) {
	w.circle.set(ids...)
	w.poke()
}

func (w *keepers) poke() {
	for _, p := range w.peers {
		p.keeping.Poke()
		p.ship.Nudge()
	}
}

// rest lets the ring come to rest.
func (w *keepers) rest() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

func (w *keepers) stop() {
	for _, p := range w.peers {
		p.stop()
	}
}

// kill ends a peer of which the others hear nothing more.
func (w *keepers) kill(ids ...peer.ID) {
	for _, id := range ids {
		w.net.at(id, nil)
		w.peers[id].stop()
		delete(w.peers, id)
	}
}

func (w *keepers) ownerOf(key ring.Key) *keeper {
	for _, p := range w.peers {
		if p.seat.Serves(key) {
			return p
		}
	}
	return nil
}

func (w *keepers) addHost(t *testing.T, host string, pages int) {
	t.Helper()
	key := ring.HostKey(host)
	w.put[storage.KeyspaceHosts][ring.PosOf(key)] = true
	var urls []string
	for i := range pages {
		urls = append(urls, fmt.Sprintf("http://%s/p%0600d", host, i))
	}
	for batch := range slices.Chunk(urls, 256) {
		reply, err := w.ownerOf(key).owners.Links(t.Context(), w.links(batch...))
		if err != nil || len(reply.GetBusy())+len(reply.GetMoved()) > 0 {
			t.Fatalf("links: %v, %v", reply, err)
		}
	}
}

// links is a batch of links, of depth 0.
func (w *keepers) links(urls ...string) *crawlwire.Links {
	m := &crawlwire.Links{Rules: link.RulesVersion, JobIds: [][]byte{w.spec.ID[:]}, Job: make([]uint32, len(urls)), Depth: make([]uint32, len(urls))}
	for _, u := range urls {
		m.Url = append(m.Url, []byte(u))
	}
	return m
}

func (w *keepers) addJob(t *testing.T) {
	t.Helper()
	spec := crawltest.Job(t, func(m *crawlwire.JobSpec) { // IDs that are always the same: where they lie decides who is handed what
		id := sha256.Sum256(fmt.Append(nil, "job ", len(w.put[storage.KeyspaceJobs])))
		m.Id = id[:job.IDSize]
	}, "http://a.example/")
	key := ring.JobKey(spec.ID.String())
	w.put[storage.KeyspaceJobs][ring.PosOf(key)] = true
	raw, err := proto.Marshal(&crawlwire.JobRequest{Id: spec.ID[:], Post: spec.Wire()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ownerOf(key).jobs.Service().Handle(t.Context(), "poster", raw); err != nil {
		t.Fatal(err)
	}
}

func (w *keepers) addBody(t *testing.T, i int) {
	t.Helper()
	digest := sha256.Sum256(fmt.Append(nil, "body", i))
	key := ring.ContentKey(digest[:])
	w.put[storage.KeyspaceContent][ring.PosOf(key)] = true
	body := reports.Confirmation{Digest: digest, URL: "http://a.example/", RecordID: "urn:uuid:00000000-0000-4000-8000-000000000001", Date: time.UnixMilli(1_700_000_000_000)}
	if err := w.ownerOf(key).contents.Confirm(t.Context(), []reports.Confirmation{body}); err != nil {
		t.Fatal(err)
	}
}

// addSubnet delegates a subnet: a record, and indexes that others share.
func (w *keepers) addSubnet(t *testing.T, i int) {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{192, 0, byte(i), 0}) // few
	tree, err := ipmicra.Build([]registry.Network{{Prefix: netip.MustParsePrefix("192.0.0.0/16"), Org: "org"}, {Prefix: netip.PrefixFrom(addr, 24), Org: "org"}})
	if err != nil {
		t.Fatal(err)
	}
	machine := ipmicra.Machine{Tree: tree}
	c, need := machine.Seed("w", addr.Next(), time.UnixMilli(1_700_000_000_000), ipmicra.NewMemory())
	if len(need) > 0 {
		t.Fatalf("needs %v", need)
	}
	for _, s := range c.Subnets {
		w.putSubnet(t, s.Key(), ipmicra.Changes{Subnets: []*ipmicra.Subnet{s}})
	}
	for _, x := range c.Indexes {
		w.putSubnet(t, x.Key, ipmicra.Changes{Indexes: []*ipmicra.Index{x}})
	}
}

func (w *keepers) putSubnet(t *testing.T, k ipmicra.Key, c ipmicra.Changes) {
	t.Helper()
	w.put[storage.KeyspaceSubnets][ring.PosOf(k.Ring())] = true
	if err := w.ownerOf(k.Ring()).subnets.Store(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// positions are those of a peer's own records of a kind.
func (p *keeper) positions(t *testing.T, prefix byte) (list []ring.Pos) {
	t.Helper()
	r := handoff.Ranged{Scan: p.store.Keyspace(prefix).Scan, Head: headOf(prefix)}
	for pos := (ring.Pos{}); ; pos = pos.Next() {
		next, ok, err := r.Next(pos)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return list
		}
		list, pos = append(list, next), next
	}
}

// urls counts what the owners of hosts have accepted, together.
func (w *keepers) urls(t *testing.T) (n int64) {
	t.Helper()
	for _, p := range w.peers {
		if err := p.owners.Look(t.Context(), func(o *owner.Owner) { n += o.Counts(w.spec.ID).Accepted }); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// check says what is not where it should be: each record once, at the peer that serves it, and
// copied by its replicas.
func (w *keepers) check(t *testing.T) {
	t.Helper()
	for _, space := range replicated {
		found := make(map[ring.Pos]peer.ID)
		for id, p := range w.peers {
			for _, pos := range p.positions(t, space.Prefix) {
				if other, twice := found[pos]; twice || !p.watch.Serves(pos) {
					t.Errorf("%c: position %x is at %s, and at %q", space.Prefix, pos[:4], id, other)
				}
				found[pos] = id
			}
		}
		if len(found) != len(w.put[space.Prefix]) {
			t.Errorf("%c: %d positions in the ring, want %d", space.Prefix, len(found), len(w.put[space.Prefix]))
		}
	}
	for id, p := range w.peers {
		sources, err := p.ship.copies.Sources()
		for _, source := range sources {
			if handoff.IsKept(peer.ID(source)) {
				t.Errorf("%s still has what is %s: %d records", id, source, len(p.copyOf(t, peer.ID(source))))
			}
		}
		if err != nil {
			t.Error(err)
		}
		own := p.own(t)
		for _, follower := range p.watch.successors(2) {
			if got := w.peers[follower].copyOf(t, id); !maps.Equal(got, own) {
				t.Errorf("%s has %d records of %s, which has %d", follower, len(got), id, len(own))
			}
		}
		if !p.keeping.Quiet() {
			t.Errorf("%s is not at rest", id)
		}
	}
}

// inKeepers runs a test with a ring in virtual time.
func inKeepers(t *testing.T, each int, ids []peer.ID, test func(t *testing.T, w *keepers)) {
	t.Helper()
	crawltest.Bubble(t, func(t *testing.T) {
		w := newKeepers(t, each, ids...)
		w.rest()
		test(t, w)
		w.stop()
	})
}
