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
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/jobs"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/records"
	"github.com/apoidea/apoidea/node/view"
)

// rememberPeers is how many peers of the routing table are kept for the next start.
const rememberPeers = 32

// choiceTime is what a first start may spend on finding a good position.
const choiceTime = 10 * time.Second

// ringRoom is this peer's place in the ring: libp2p beneath, kad-dht as membership, the DHT on top.
type ringRoom struct {
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
	// restarted says that the data directory knows of an earlier run, which kept memory of the
	// ring.
	restarted bool
	memory    *dht.Memory
	// changed tells that what is to be remembered is another.
	changed chan struct{}
}

// toWorker is a context for calls to a peer that may be attached as a worker: it cannot be dialled,
// so they go over the connection that it made.
func (r *ringRoom) toWorker(ctx context.Context, id peer.ID) context.Context {
	if slices.ContainsFunc(r.dht.Attached(), func(p dht.Peer) bool { return p.ID == id }) {
		return calls.WithoutDial(ctx)
	}
	return ctx
}

// walkFrom is where a walk round the ring begins: here, or for a worker at a ring peer that it is
// attached to.
func (r *ringRoom) walkFrom() peer.ID {
	if attached := r.dht.Attachments(); r.dht.State() == dht.Worker && len(attached) > 0 {
		return attached[0].ID
	}
	return r.net.Self()
}

// known are the members that this peer knows, clockwise from it.
func (r *ringRoom) known() (ids []peer.ID) {
	for _, p := range r.dht.Members() {
		ids = append(ids, p.ID)
	}
	return ids
}

// leavesChanged notes that the neighbourhood is to be remembered anew, and keeps the connections to
// it. It does not block.
func (r *ringRoom) leavesChanged() {
	preds, succs := r.dht.Leaves()
	neighbours, others := idsOf(r.dht.Attachments()), idsOf(r.dht.Attached())
	for _, id := range idsOf(succs, preds) {
		if _, proven := r.dht.Leaf(id); proven {
			neighbours = append(neighbours, id)
		} else {
			others = append(others, id)
		}
	}
	r.net.Protect(neighbours, others)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func idsOf(lists ...[]dht.Peer) (ids []peer.ID) {
	for _, list := range lists {
		for _, p := range list {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// newRingRoom builds host and ring with the services of register, and listens; nothing runs yet.
func newRingRoom(
	ctx context.Context, cfg *Config, m meta, incarnation uint64, shape p2p.Shape, now func() time.Time, register func(*p2p.Net), log *slog.Logger,
) (room *ringRoom, err error) {
	memory, err := m.memory()
	if err != nil {
		return nil, err
	}
	r := &ringRoom{cfg: cfg, meta: m, shape: shape, log: log, restarted: memory != nil, memory: memory, changed: make(chan struct{}, 1)}
	r.sources = p2p.Sources{Bootstrap: cfg.Bootstrap, DNSSeeds: cfg.DNSSeed, DNSServer: cfg.DNSServer}
	if err := m.GetJSON(metaRemembered, &r.sources.Remembered); err != nil {
		return nil, err
	}
	if err := r.entries(); err != nil {
		return nil, err
	}
	r.nearby = newNearby(cfg.MDNS)
	r.nearby.look(ctx, r)
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
	config.Found = cfg.Found || !r.restarted && len(cfg.Bootstrap)+len(cfg.DNSSeed)+len(r.sources.Nearby) == 0
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

// choose finds, of the candidates, the position that splits the largest arc best, by asking the
// ring from a passing identity.
func (r *ringRoom) choose(ctx context.Context, candidates []peer.ID) int {
	if r.sources.Empty() {
		return 0 // the founder's place does not matter
	}
	ctx, cancel := context.WithTimeout(ctx, choiceTime)
	defer cancel()
	best, err := r.ask(ctx, candidates)
	if err != nil {
		r.log.Info("position drawn without knowing the ring", "err", err)
	}
	return best
}

// entries keeps the entry peers and DNS seeds that this run was given. A run that was given none
// takes those of an earlier one.
func (r *ringRoom) entries() error {
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

// scout returns a connection to the ring under a passing identity, and the entry peers that it
// found. It is to be closed.
func (r *ringRoom) scout(ctx context.Context) (*p2p.Net, []dht.Peer, error) {
	key, err := p2p.GenerateIdentity(1, func([]peer.ID) int { return 0 })
	if err != nil {
		return nil, nil, err
	}
	scout, err := p2p.New(r.netConfig(key), r.log)
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

// twinTime bounds the search for another process with this identity.
const twinTime = 3 * time.Second

// twin returns an error if another process runs with this identity, as it does where the data
// directory was copied. It looks before this process listens, so that whatever answers is another.
func (r *ringRoom) twin(ctx context.Context, key crypto.PrivKey) error {
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

func (r *ringRoom) ask(ctx context.Context, candidates []peer.ID) (int, error) {
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

// The connections at which those that matter least are closed (design 3): a volunteer's behind a
// home router, and any other peer's.
const (
	publicHighWater = 64
	labHighWater    = 192
)

func (r *ringRoom) netConfig(key crypto.PrivKey) p2p.Config {
	high := r.cfg.connections()
	c := p2p.Config{
		Network: r.cfg.Network, Identity: key, UserAgent: "apoidea/" + r.cfg.Version, Shape: r.shape, Bulk: []string{records.ServiceRecords, view.ServiceFiles}, Long: []string{view.ServiceStatus, view.ServiceFiles, jobs.ServiceName},
		LowWater: high * 5 / 6, HighWater: high,
	}
	if r.cfg.Profile == ProfilePublic {
		c.Profile = p2p.Public
		c.LowWater = high / 2 // a home router has little room, so that it is made in larger steps
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

// listen opens the given addresses; with none given those of the last run, so that others find this
// peer again, or else any.
func (r *ringRoom) listen(key crypto.PrivKey, register func(*p2p.Net)) error {
	c := r.netConfig(key)
	c.Metrics = r.cfg.registerer
	before, err := r.meta.listened()
	if err != nil {
		return err
	}
	own := false
	c.Listen, own = r.cfg.ListenOn(before)
	err = r.open(c, register)
	if err != nil && own && len(before) > 0 {
		r.log.Info("addresses of the last run are taken, listening elsewhere", "err", err)
		c.Listen, _ = r.cfg.ListenOn(nil)
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

func (r *ringRoom) open(c p2p.Config, register func(*p2p.Net)) error {
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

// listenAddrs are the addresses bound, without the peer's name, to be bound again.
func (r *ringRoom) listenAddrs() []string {
	var out []string
	for _, a := range r.net.Host().Network().ListenAddresses() {
		if addr := a.String(); !strings.Contains(addr, "/p2p-circuit") { // a peer behind relays has these too
			out = append(out, addr)
		}
	}
	return out
}

// maxRetry is the longest wait between two tries of a restarted peer to find the others.
// maxAloneRetry is that wait for one that serves a ring of its own meanwhile.
const (
	maxRetry      = 5 * time.Second
	maxAloneRetry = time.Minute
)

// join enters a ring, and again whenever this peer has been left alone: the addresses of all others
// may have changed, and the names of entry peers lead to the new ones.
func (r *ringRoom) join(ctx context.Context) error {
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

// manyTries is how often peers that are merely remembered are tried, over a minute, before a
// warning: those of a whole ring that starts again come one after another.
const manyTries = 8

// enter finds entry peers and joins their ring. With nothing to try a new peer founds a ring; a
// restarted one that finds nobody tries again until ctx ends, also while it serves alone; a new one
// fails with what it tried. One that is started again while members of
// its ring speak another version waits for them: with others of its own version it would make a
// second ring for the same hosts.
func (r *ringRoom) enter(ctx context.Context) error {
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
				r.log.Warn("no entry peer answers: this peer serves a ring of its own until one does (--found stops trying)", "tried", report.Error())
			}
			most = maxAloneRetry
		case r.member():
			return nil // others found us, or we serve alone
		case !r.restarted:
			return report
		case try == 0 && held:
			r.log.Warn("members of the ring speak another version: this peer waits until none does, as two rings would crawl the same hosts (--found goes on without them)", "member", other)
		case try == 0:
			r.log.Warn("no entry peer answers yet, trying on (--found serves without them)", "tried", report.Error())
		}
		if err := loop.Sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(wait*2, most)
	}
}

// member reports whether this peer serves in a ring or is attached to a member.
func (r *ringRoom) member() bool {
	return r.dht.State() == dht.Serving || len(r.dht.Attachments()) > 0
}

// joined returns when the ring lets this peer serve, or it is attached to a member.
func (r *ringRoom) joined(ctx context.Context) error {
	for !r.member() {
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// rememberEvery is how often what the next start needs is kept although nothing is known to have
// changed.
const rememberEvery = time.Minute

// keepMemory stores what the next start needs of the ring.
func (r *ringRoom) keepMemory(ctx context.Context) error {
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

// remember keeps what the next start needs, each time the neighbourhood changed and once in a
// while.
func (r *ringRoom) remember() error {
	snapshot, err := r.dht.Snapshot()
	if err != nil {
		return err
	}
	if err := r.meta.put(metaMemory, snapshot); err != nil {
		return err
	}
	// Until it has joined again, the peers of the earlier run stay: some may speak another version.
	if addrs := r.remembered(); len(addrs) > 0 && (!r.restarted || r.member()) {
		return r.meta.PutJSON(metaRemembered, addrs)
	}
	return nil
}

// remembered are the leaf set and some of the routing table as multiaddrs, each peer once.
func (r *ringRoom) remembered() []string {
	var out []string
	seen := make(map[peer.ID]bool)
	preds, succs := r.dht.Leaves()
	for _, p := range append(succs, preds...) {
		if seen[p.ID] {
			continue
		}
		seen[p.ID] = true
		for _, raw := range p.Addrs {
			if a, err := ma.NewMultiaddrBytes(raw); err == nil {
				out = append(out, fmt.Sprintf("%s/p2p/%s", a, p.ID))
				break
			}
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
