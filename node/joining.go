package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/records"
)

// rememberPeers is the number of peers of the routing table stored for the next start.
const rememberPeers = 32

// choiceTime is the timeout of finding a good position at the first start.
const choiceTime = 10 * time.Second

// ringServices is this peer's place in the ring: libp2p, kad-dht as membership, and the DHT.
type ringServices struct {
	cfg     *Config
	meta    meta
	shape   p2p.Shape
	log     *slog.Logger
	net     *p2p.Net
	kad     *p2p.Kad
	dht     *dht.DHT
	watch   *records.Watch
	sources p2p.Sources
	nearby  *nearby
	// restarted reports that the data directory has ring state of an earlier run.
	restarted bool
	memory    *dht.Memory
	// changed holds a token when the stored state is outdated.
	changed chan struct{}
	// met is called after the state was stored for the first time since this peer became the only one
	// of its ring, or ceased to be.
	met   func()
	alone bool // as of the last call
}

// toWorker returns a context for calls to a peer that may be an attached worker: it cannot be
// dialed, so they use the connection that it opened.
func (r *ringServices) toWorker(ctx context.Context, id peer.ID) context.Context {
	if slices.ContainsFunc(r.dht.Attached(), func(p dht.Peer) bool { return p.ID == id }) {
		return calls.WithoutDial(ctx)
	}
	return ctx
}

// walkFrom returns the start of a walk around the ring: this peer, or for a worker a ring peer that
// it is attached to.
func (r *ringServices) walkFrom() peer.ID {
	if attached := r.dht.Attachments(); r.dht.State() == dht.Worker && len(attached) > 0 {
		return attached[0].ID
	}
	return r.net.Self()
}

// known returns the members that this peer knows, clockwise from it.
func (r *ringServices) known() []peer.ID { return member.IDs(r.dht.Members()) }

// leavesChanged marks the stored neighborhood as outdated, and protects the connections to it. It
// does not block.
func (r *ringServices) leavesChanged() {
	preds, succs := r.dht.Leaves()
	neighbours, others := member.IDs(r.dht.Attachments()), member.IDs(r.dht.Attached())
	for _, id := range member.IDs(succs, preds) {
		if _, proven := r.dht.Leaf(id); proven {
			neighbours = append(neighbours, id)
		} else {
			others = append(others, id)
		}
	}
	r.net.Protect(neighbours, others)
	loop.Wake(r.changed)
}

// neighbors returns the leaf set, and the size of the ring in peers.
func (r *ringServices) neighbors() (ids []peer.ID, size int) {
	preds, succs := r.dht.Leaves()
	ids = member.IDs(succs, preds)
	slices.Sort(ids)
	return ids, r.dht.Size()
}

// newRingRoom creates host and ring with the services of register, and listens; nothing runs yet.
func newRingRoom(
	ctx context.Context, cfg *Config, m meta, incarnation uint64, shape p2p.Shape, now func() time.Time, register func(*p2p.Net), log *slog.Logger,
) (room *ringServices, err error) {
	memory, err := m.memory()
	if err != nil {
		return nil, err
	}
	r := &ringServices{cfg: cfg, meta: m, shape: shape, log: log, restarted: memory != nil, memory: memory, changed: make(chan struct{}, 1), met: func() {}}
	r.sources = p2p.Sources{Bootstrap: cfg.Bootstrap, DNSSeeds: cfg.DNSSeed, DNSServer: cfg.DNSServer}
	if err := m.GetJSON(metaRemembered, &r.sources.Remembered); err != nil {
		return nil, err
	}
	if err := r.entries(); err != nil {
		return nil, err
	}
	if cfg.MDNS {
		r.nearby = &nearby{heard: make(map[peer.ID][]string)}
	}
	r.nearby.look(ctx, r)
	founds := cfg.Found || !r.restarted && len(cfg.Bootstrap)+len(cfg.DNSSeed)+len(r.sources.Nearby) == 0
	if founds && memory == nil && r.cfg.Profile == ProfilePublic && r.cfg.Admission == "" {
		return nil, errNoAdmission
	}
	key, err := m.identity(func(candidates []peer.ID) int { return r.choose(ctx, candidates) })
	if err != nil {
		return nil, err
	}
	if err := r.twin(ctx, key); err != nil {
		return nil, err
	}
	if err := r.listen(key, register); err != nil {
		return nil, err
	}
	config := dht.DefaultConfig()
	config.TakeOver = cfg.LeaseTTL
	config.Now = now
	config.Memory, config.Origin = memory, r.net.Origin
	config.Found = founds
	if config.Admission, err = r.book(now(), r.net.Self(), memory, founds); err != nil {
		return nil, errors.Join(err, r.net.Close())
	}
	config.Role = r.net.Role(memory, config.Found)
	self := r.net.Peer(r.net.Self())
	self.Incarnation = incarnation
	transport := p2p.NewRingTransport(r.net)
	if r.dht, err = dht.New(config, self, transport, r.kad, log); err != nil {
		return nil, errors.Join(err, r.net.Close())
	}
	r.watch = records.NewWatch(r.dht, r.net.Self())
	transport.Serve(r.dht.Handle) //nolint:contextcheck // a request has the context of its connection
	r.net.OnDisconnect(r.dht.Disconnected)
	if err := r.net.Follow(r.dht); err != nil {
		return nil, errors.Join(err, r.net.Close())
	}
	return r, nil
}

// choose finds, of the candidates, the position that splits the largest arc best, by lookups from a
// temporary identity.
func (r *ringServices) choose(ctx context.Context, candidates []peer.ID) int {
	if r.sources.Empty() {
		return 0 // the founder's position does not matter
	}
	ctx, cancel := context.WithTimeout(ctx, choiceTime)
	defer cancel()
	best, err := r.ask(ctx, candidates)
	if err != nil {
		r.log.Info("ring unreachable, position drawn at random", "err", err)
	}
	return best
}

// entries stores the entry peers and DNS seeds of this run. A run without any uses those of an
// earlier one.
func (r *ringServices) entries() error {
	if r.cfg.Found {
		return nil
	}
	type names struct{ Bootstrap, DNSSeeds []string }
	kept := names{r.sources.Bootstrap, r.sources.DNSSeeds}
	if len(kept.Bootstrap)+len(kept.DNSSeeds) > 0 {
		return r.meta.PutJSON(metaEntries, kept)
	}
	err := r.meta.GetJSON(metaEntries, &kept)
	r.sources.Bootstrap, r.sources.DNSSeeds = kept.Bootstrap, kept.DNSSeeds
	return err
}

// temporary returns a network under a temporary identity; the caller closes it.
func (r *ringServices) temporary() (*p2p.Net, error) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		return nil, err
	}
	return p2p.New(r.netConfig(key), r.log)
}

// scout returns a connection to the ring under a temporary identity, and the entry peers that it
// found. The caller closes it.
func (r *ringServices) scout(ctx context.Context) (*p2p.Net, []dht.Peer, error) {
	scout, err := r.temporary()
	if err != nil {
		return nil, nil, err
	}
	report := scout.Bootstrap(ctx, r.sources)
	if len(report.Entries) == 0 {
		return nil, nil, errors.Join(report, scout.Close())
	}
	entries := make([]dht.Peer, len(report.Entries))
	for i, id := range report.Entries {
		entries[i] = scout.Peer(id)
	}
	return scout, entries, nil
}

// twinTime is the timeout of the search for another process with this identity.
const twinTime = 3 * time.Second

// twin returns an error if another process runs with this identity, as with a copied data
// directory. It runs before this process listens, so any answer comes from another.
func (r *ringServices) twin(ctx context.Context, key crypto.PrivKey) error {
	self, err := peer.IDFromPrivateKey(key)
	if err != nil || !r.restarted || r.sources.Empty() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, twinTime)
	defer cancel()
	scout, entries, err := r.scout(ctx)
	if err != nil {
		return nil //nolint:nilerr // there is no ring to ask
	}
	defer func() { _ = scout.Close() }()
	search := lookup.New(scout.Self(), ring.PeerKey([]byte(self)), entries, lookup.DefaultCalls)
	lookup.Drive(ctx, p2p.NewRingTransport(scout).Call, search, twinTime)
	if !scout.Connected(self) {
		return nil
	}
	return fmt.Errorf("another process runs with the identity of data directory %s, peer %s: stop it, or start this one with a --data-dir of its own (a copy of a data directory is the same peer)", r.cfg.DataDir, self)
}

func (r *ringServices) ask(ctx context.Context, candidates []peer.ID) (int, error) {
	scout, entries, err := r.scout(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = scout.Close() }()
	keys := make([]ring.Key, len(candidates))
	for i, id := range candidates {
		keys[i] = ring.PeerKey([]byte(id))
	}
	return lookup.ChoosePosition(ctx, p2p.NewRingTransport(scout).Call, entries, keys)
}

// The connection counts at which the least important are closed (design 3): of a volunteer behind a
// home router, and of any other peer.
const (
	publicHighWater = 64
	labHighWater    = 192
)

func (r *ringServices) netConfig(key crypto.PrivKey) p2p.Config {
	high := r.cfg.connections()
	c := p2p.Config{
		Network: r.cfg.Network, Identity: key, UserAgent: "apoidea/" + r.cfg.Version, Shape: r.shape, Bulk: []string{records.ServiceRecords, inspect.ServiceFiles}, Long: []string{inspect.ServiceStatus, inspect.ServiceFiles, jobs.ServiceName},
		LowWater: high * 5 / 6, HighWater: high,
	}
	if r.cfg.Profile == ProfilePublic {
		c.Profile = p2p.Public
		c.LowWater = high / 2 // a home router has little memory, so close more at once
	}
	c.Traversal = r.cfg.NATTraversal == "on" || r.cfg.NATTraversal == "" && r.cfg.Profile == ProfilePublic
	switch r.cfg.Reachability {
	case "auto":
		c.Reachability = p2p.ReachAuto
	case "public":
		c.Reachability = p2p.ReachPublic
	case "private":
		c.Reachability = p2p.ReachPrivate
	}
	if r.cfg.Latency != nil {
		c.Dialled = r.cfg.Latency.Dialled
	}
	return c
}

// listen opens the configured addresses; without any those of the last run, so that others find
// this peer again, or else any.
func (r *ringServices) listen(key crypto.PrivKey, register func(*p2p.Net)) error {
	c := r.netConfig(key)
	c.Metrics = r.cfg.registerer
	before, err := r.meta.listened()
	if err != nil {
		return err
	}
	own := false
	c.Listen, own = r.cfg.listenOn(before)
	err = r.open(c, register)
	if err != nil && own && len(before) > 0 {
		r.log.Info("addresses of the last run are in use, listening elsewhere", "err", err)
		c.Listen, _ = r.cfg.listenOn(nil)
		err = r.open(c, register)
	}
	if err != nil {
		return err
	}
	if r.cfg.Profile == ProfileLab && r.cfg.Reachability != "private" {
		if err := cannotBeDialled(r.net.Addrs(), r.cfg.Bootstrap); err != nil {
			return errors.Join(err, r.net.Close())
		}
	}
	return r.meta.PutJSON(metaListen, r.listenAddrs())
}

func (r *ringServices) open(c p2p.Config, register func(*p2p.Net)) error {
	net, err := p2p.New(c, r.log)
	if err != nil {
		return err
	}
	kad, err := p2p.NewKad(net)
	if err != nil {
		return errors.Join(err, net.Close())
	}
	register(net)
	if err := net.Listen(); err != nil {
		return errors.Join(err, net.Close())
	}
	r.net, r.kad = net, kad
	return nil
}

// listenAddrs returns the bound addresses, without the peer's ID, for the next run.
func (r *ringServices) listenAddrs() []string {
	var out []string
	for _, a := range r.net.Host().Network().ListenAddresses() {
		if addr := a.String(); !strings.Contains(addr, "/p2p-circuit") { // also present behind relays
			out = append(out, addr)
		}
	}
	return out
}

// maxRetry is the maximum delay between attempts of a restarted peer to find the others,
// maxAloneRetry that of one that serves a ring of its own meanwhile.
const (
	maxRetry      = 5 * time.Second
	maxAloneRetry = time.Minute
)

// join joins a ring, and again whenever this peer is alone: the addresses of all others may have
// changed, and the names of entry peers resolve to the new ones.
func (r *ringServices) join(ctx context.Context) error {
	for {
		if err := r.enter(ctx); err != nil {
			return err
		}
		for again := false; !again; again = !r.cfg.Found && r.dht.Size() <= 1 && len(r.dht.Attachments()) == 0 {
			if loop.Sleep(ctx, maxAloneRetry) != nil {
				return nil
			}
		}
	}
}

// manyTries is the number of attempts with only remembered peers, over a minute, before a warning:
// peers of a whole ring that restarts return one after another.
const manyTries = 8

// enter finds entry peers and joins their ring. Without entry points a new peer founds a ring. A
// restarted one without answer retries until ctx ends, also while it serves alone; a new one fails.
// A restarted one waits while ring members use an incompatible version: with peers of its own
// version it would form a second ring for the same hosts.
func (r *ringServices) enter(ctx context.Context) error {
	wait, most := 250*time.Millisecond, maxRetry
	warnAt := manyTries
	if len(r.sources.Bootstrap)+len(r.sources.DNSSeeds) > 0 {
		warnAt = 0
	}
	for try := 0; ; try++ {
		sources := r.sources
		sources.Nearby = r.nearby.addrs()
		if err := r.meta.GetJSON(metaRemembered, &sources.Remembered); err != nil {
			return err
		}
		if sources.Empty() {
			return nil // founder, or alone before
		}
		report := r.net.Bootstrap(ctx, sources)
		other := report.OtherVersion()
		held := other != nil && r.restarted && !r.cfg.Found
		r.dht.Hold(held)
		if len(report.Entries) > 0 && !held {
			entries := make([]dht.Peer, len(report.Entries))
			for i, id := range report.Entries {
				entries[i] = r.net.Peer(id)
			}
			err := r.dht.Join(ctx, entries)
			if err == nil {
				return nil
			}
			report.Attempts = append(report.Attempts, p2p.Attempt{Source: "ring", Address: "entry peers", Err: err})
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !r.cfg.Found && r.dht.State() == dht.Serving && r.dht.Size() <= 1:
			if try == warnAt {
				r.log.Warn("no entry peer answers: serving alone, will retry (--found stops retrying)", "tried", report.Error())
			}
			most = maxAloneRetry
		case r.member():
			return nil // others found us, or we serve alone
		case !r.restarted:
			return report
		case try == 0 && held:
			r.log.Warn("ring members run an incompatible version: waiting for their upgrade, as two rings would crawl the same hosts (--found continues without them)", "member", other)
		case try == 0:
			r.log.Warn("no entry peer answers yet, retrying (--found serves without them)", "tried", report.Error())
		}
		if err := loop.Sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(wait*2, most)
	}
}

// member reports whether this peer serves in a ring or is attached to a member.
func (r *ringServices) member() bool {
	return r.dht.State() == dht.Serving || len(r.dht.Attachments()) > 0
}

// joined returns when this peer may serve, or is attached to a member.
func (r *ringServices) joined(ctx context.Context) error {
	for !r.member() {
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// rememberEvery is the interval at which the ring state is stored even without known changes.
const rememberEvery = time.Minute

// keepMemory stores the ring state for the next start.
func (r *ringServices) keepMemory(ctx context.Context) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for {
		if err := r.remember(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-r.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// remember stores the ring state after each change of the neighborhood and periodically.
func (r *ringServices) remember() error {
	snapshot, err := r.dht.Snapshot()
	if err != nil {
		return err
	}
	if err := errors.Join(r.meta.put(metaMemory, snapshot), r.saveAdmission()); err != nil {
		return err
	}
	// Until it has joined again, the peers of the earlier run stay: some may speak another version.
	if addrs := r.remembered(); len(addrs) > 0 && (!r.restarted || r.member()) {
		err = r.meta.PutJSON(metaRemembered, addrs)
	}
	arc, serves := r.dht.Arc()
	if alone := serves && arc.Whole(); alone != r.alone {
		r.alone = alone
		r.met()
	}
	return err
}

// remembered returns the leaf set and some of the routing table as multiaddrs, each peer once.
func (r *ringServices) remembered() []string {
	var out []string
	seen := make(map[peer.ID]bool)
	preds, succs := r.dht.Leaves()
	for _, p := range member.Distinct(succs, preds) {
		seen[p.ID] = true
		if info := p.AddrInfo(); len(info.Addrs) > 0 {
			out = append(out, fmt.Sprintf("%s/p2p/%s", info.Addrs[0], p.ID))
		}
	}
	for _, a := range r.kad.Remembered(rememberPeers) {
		info, err := peer.AddrInfoFromString(a)
		if err == nil && !seen[info.ID] {
			seen[info.ID] = true
			out = append(out, a)
		}
	}
	return out[:min(len(out), rememberPeers)]
}
