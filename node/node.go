package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/ops/dashboard"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/ops/limits"
	"github.com/apoidea/apoidea/node/ops/metrics"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/jobs"
	"github.com/apoidea/apoidea/node/services/membership"
	"github.com/apoidea/apoidea/node/services/placer"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/records"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/subnets"
	"github.com/apoidea/apoidea/storage"
)

// Node is one peer. Its methods are safe for concurrent use once Run has begun.
type Node struct {
	*stages
	*page
	cfg         Config
	log         *slog.Logger
	incarnation uint64
	started     time.Time
	clock       *leaseClock // shared by the ring, the owners and the worker: all count time asleep

	store *storage.Store
	meta  meta
	// essentials keeps the copy of identity and jobs beside the store.
	essentials *essentialsKeeper
	line       *limits.Line
	ring       *ringServices
	api        net.Listener
	token      string // required by an API on TCP; empty if unused
	// metrics is the Prometheus registry; debug are the listeners of --metrics and --pprof.
	metrics *metrics.Metrics
	debug   []debugServer

	router     *rpc.Router
	authorizer *authorizer
	ship       *records.Replication
	members    *membership.Service
	keeping    *records.Keeping
	contents   *crawling.Contents
	bodies     *crawling.Bodies
	subnets    *subnets.Service
	domains    *politeness.Domains
	permits    *politeness.Permits
	optOuts    *politeness.Lists
	wishes     *politeness.OptOuts
	form       net.Listener // nil without an opt-out form
	jobs       *jobs.Service
	registry   *jobs.Registry
	owners     *hosts.Owners
	crawl      *crawling.Crawl
	limits     *limits.Limits
	placer     *placer.Placer
	limits.Commands
	*politeness.OptOutCommands
	*inspect.View
	*jobs.Poster
	watchers *inspect.Watchers
	recent   dashboard.Recent // for the dashboard
}

var _ control.Backend = (*Node)(nil)

// New opens the data directory, the network and the API of a peer. It starts nothing; on an error
// it leaves nothing open.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Name != "" {
		log = log.With("name", cfg.Name)
	}
	n := &Node{
		stages: newStages(), cfg: cfg, log: log, started: time.Now(), clock: newLeaseClock(), watchers: inspect.NewWatchers(), metrics: metrics.New(), line: limits.NewLine(),
	}
	if cfg.Metrics != "" {
		n.cfg.registerer = n.metrics.Registerer()
	}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// open opens everything for New; on an error the caller closes what is open.
func (n *Node) open(ctx context.Context) (err error) {
	// Checked before the store is opened: on a full disk a database cannot replay its log.
	if err := storage.NewGuard(existing(n.cfg.DataDir), max(n.cfg.DiskReserve, leastSpace)).Check(); err != nil {
		return fmt.Errorf("start: %w; %s", err, limits.MoreRoom)
	}
	if n.cfg.MaxBytesPerHost == FittingHostBytes {
		free, err := storage.Free(existing(n.cfg.DataDir))
		if err != nil {
			return err
		}
		n.cfg.MaxBytesPerHost = fittingHostBytes(free)
	}
	closed, err := datadir.Claim(n.cfg.DataDir)
	if err != nil {
		return err
	}
	if closed {
		n.log.Warn("data directory was accessible to other users; permissions restricted", "dir", n.cfg.DataDir)
	}
	if name := unusedProxy(os.LookupEnv); name != "" && n.cfg.Proxy == nil {
		n.log.Warn("proxy environment variable ignored; use --proxy", "variable", name)
	}
	if err := checkDatabaseLost(n.cfg.DataDir); err != nil {
		return err
	}
	if n.store, err = storage.Open(filepath.Join(n.cfg.DataDir, "db"), storage.Options{Logger: n.log}); err != nil {
		return err
	}
	n.meta = meta{n.store.Keyspace(storage.KeyspaceMeta)}
	n.essentials = newEssentialsKeeper(n.meta.space, n.cfg.DataDir, n.log)
	if n.incarnation, err = n.meta.nextIncarnation(); err != nil {
		return err
	}
	if n.api, err = control.Listen(ctx, n.cfg.APIAddr(), n.cfg.APIRemote); err != nil {
		return err
	}
	if n.page, err = openPage(ctx, n.cfg.Dashboard, n.meta); err != nil {
		return err
	}
	if n.debug, err = n.listenDebug(ctx); err != nil {
		return err
	}
	if err := n.readToken(); err != nil {
		return err
	}
	if n.ring, err = newRingRoom(ctx, &n.cfg, n.meta, n.incarnation, n.line, n.clock.Now, n.register, n.log); err != nil {
		return err
	}
	n.ring.met = n.essentials.schedule
	if n.form, err = listenForOptOuts(ctx, n.cfg.OptOutListen); err != nil {
		return err
	}
	if err := n.buildServices(); err != nil {
		return err
	}
	n.essentials.save()
	return writeAddrs(n.cfg.DataDir, n.ring.net.Addrs())
}

// leastSpace is the free space required to start, in bytes: a few memory tables.
const leastSpace = 24 << 20

// existing returns dir or its nearest existing parent.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// register announces the services before the network listens. Their parts are built right after;
// earlier requests are answered as busy.
func (n *Node) register(net *p2p.Net) {
	serve := func(name string, service func() rpc.Service) {
		handler := sync.OnceValue(func() calls.Handler { return service().Behind(n.authorizer) })
		net.Handle(name, func(ctx context.Context, from peer.ID, req []byte) ([]byte, error) {
			open := n.ready
			if name == inspect.ServiceStatus || name == records.ServiceReplica || name == records.ServiceRecords || name == records.ServicePull || name == membership.ServiceName {
				open = n.furnished // a walk or a replication source may reach a joining peer
			}
			select {
			case <-open:
				return handler()(ctx, from, req)
			default:
				return nil, rpc.Busy("the peer is joining the ring")
			}
		})
	}
	for _, s := range n.services() {
		serve(s.name, s.service)
	}
}

// named is a service with its name, built on demand.
type named struct {
	name    string
	service func() rpc.Service
}

// services returns all services of a peer except the ring's own.
func (n *Node) services() []named {
	return []named{
		{rpc.ServiceOwner, n.ownersService},
		{rpc.ServiceWorker, n.workerService},
		{jobs.ServiceName, func() rpc.Service { return n.jobs.Service() }},
		{crawling.ServiceContent, func() rpc.Service { return n.contents.Service() }},
		{crawling.ServiceBodies, func() rpc.Service { return n.bodies.Service() }},
		{politeness.ServiceDomains, func() rpc.Service { return n.domains.Service() }},
		{politeness.ServicePermits, func() rpc.Service { return n.permits.Service() }},
		{subnets.ServiceSubnets, func() rpc.Service { return n.subnets.Service() }},
		{placer.ServiceCoordinates, func() rpc.Service { return n.placer.CoordinatesService() }},
		{placer.ServiceSamples, func() rpc.Service { return n.placer.SamplesService() }},
		{records.ServiceRecords, func() rpc.Service { return n.keeping.Service() }},
		{records.ServicePull, func() rpc.Service { return n.keeping.PullService() }},
		{records.ServiceReplica, func() rpc.Service { return n.ship.Service() }},
		{membership.ServiceName, func() rpc.Service { return n.members.Service() }},
		{inspect.ServiceStatus, func() rpc.Service { return n.StatusService() }},
		{inspect.ServiceFiles, func() rpc.Service { return n.FilesService() }},
	}
}

func (n *Node) archiveDir() string { return crawling.ArchiveDir(n.cfg.DataDir) }

// buildServices creates and connects the parts.
func (n *Node) buildServices() (err error) {
	self := n.ring.net.Self()
	key, own, err := n.jobKeys()
	if err != nil {
		return err
	}
	whose, err := n.cfg.whose(key, own)
	if err != nil {
		return err
	}
	n.router = &rpc.Router{Ring: timedRing{n.ring.dht, n.metrics}, Net: n.ring.net}
	n.authorizer = newAuthorizer(n.ring, n.router)
	if n.members, err = n.newMembership(); err != nil {
		return err
	}
	recovering, err := n.meta.space.Has([]byte(metaRecovering))
	if err != nil {
		return err
	}
	n.ship = records.NewReplication(records.ReplicationDeps{
		Watch: n.ring.watch, Replicas: n.cfg.Replicas, Incarnation: n.incarnation, Net: n.ring.net, Store: n.store, Suspect: n.ring.dht.Unreachable, Recovering: recovering,
		Log: n.log,
	})
	n.keeping = records.NewKeeping(records.KeepingDeps{ // owners are set later
		Watch: n.ring.watch, Router: n.router, Replication: n.ship, TTL: n.cfg.LeaseTTL, Tell: n.watchers.Tell,
		Settled: func() { n.owners.SettledChanged() }, Came: func() { n.owners.RecordsCame() }, Recovered: n.meta.recovered,
	})
	n.bodies = crawling.NewBodies(crawling.BodiesDeps{
		Space: n.store.Keyspace(storage.KeyspaceBodies), Dir: n.archiveDir(), Self: self, Caller: n.router, Log: n.log,
	})
	if n.contents, err = crawling.NewContents(crawling.ContentsDeps{
		Records: n.ship.LazySpace(storage.KeyspaceContent), Router: n.router, Bodies: n.bodies, Self: self, Log: n.log,
	}); err != nil {
		return err
	}
	if n.subnets, err = subnets.NewService(n.ship.Space(storage.KeyspaceSubnets), n.router, n.log); err != nil {
		return err
	}
	if err := n.openOptOuts(); err != nil {
		return err
	}
	if n.domains, err = politeness.NewDomains(politeness.DomainsDeps{
		Records: n.ship.Space(storage.KeyspaceDomains), Hosts: n.cfg.DomainHosts, Router: n.router,
		Settled: n.keeping.Settled, ProveOptOuts: n.cfg.OptOutProof, Prove: n.wishes.Prove, Spread: n.wishes.Spread, Log: n.log,
	}); err != nil {
		return err
	}
	n.permits = politeness.NewPermits(cmp.Or(n.cfg.IPPermits, DefaultPermits(n.cfg.Delay)), n.cfg.PermitChunk, n.cfg.DomainDelay, n.incarnation, n.router)
	n.jobs = jobs.NewService(jobs.ServiceDeps{
		Self: n.ring.net.Self(), Store: n.ship.Space(storage.KeyspaceJobs), Serves: n.servesJob, Seeds: func(ctx context.Context, spec *job.Spec, from int) (int, error) {
			return n.owners.SendSeeds(ctx, spec, from)
		}, Whose: whose, Origin: n.ring.net.Origin, Log: n.log,
		Spec:   func(id job.ID) (*job.Spec, job.Standing, bool) { return n.registry.Job(id) },
		Member: func(ctx context.Context, id peer.ID) bool { return n.authorizer.Member(ctx, id) },
	})
	if n.registry, err = jobs.NewRegistry(jobs.RegistryDeps{Owners: n.router, Keep: n.meta.space, Changed: n.jobChanged, Key: key, Own: own, Whose: whose, Log: n.log}); err != nil {
		return err
	}
	if n.crawl, err = crawling.New(n.crawling(), n.crawled()); err != nil {
		return err
	}
	rules := n.cfg.Limits
	rules.Fetchers, rules.DiskReserve = n.cfg.Fetchers, int64(n.cfg.DiskReserve) // bounded by Validate
	if n.limits, err = limits.New(rules, n.cfg.ForgetLimits, limits.Deps{
		Kept: n.meta, Worker: n.crawl.Worker, Line: n.line, DataDir: n.cfg.DataDir, OwnProcess: n.cfg.OwnProcess, PageMemory: crawling.PageMemory, Log: n.log,
	}); err != nil {
		return err
	}
	n.Commands = n.limits.Commands()
	if n.placer, err = placer.New(n.cfg.placing(), n.placed()); err != nil {
		return err
	}
	if n.owners, err = hosts.New(n.hosting(), n.hosted()); err != nil {
		return err
	}
	n.keeping.Add(storage.KeyspaceHosts, n.owners.Mover(), n.owners.OnLoop)
	n.keeping.AddService(storage.KeyspaceJobs, n.jobs.Serial, n.jobs.State, n.jobs.Imported)
	n.keeping.AddService(storage.KeyspaceContent, n.contents.Serial, n.contents.State, nil)
	n.keeping.AddService(storage.KeyspaceSubnets, n.subnets.Serial, n.subnets, nil)
	n.keeping.AddService(storage.KeyspaceDomains, n.domains.Serial, n.domains.State, nil)
	n.View = inspect.New(n.viewed())
	n.OptOutCommands = politeness.NewOptOutCommands(politeness.OptOutCommandsDeps{
		Ready: n.Ready, Announce: n.wishes.Announce, Lists: n.optOuts, Locate: n.crawl.Fetcher.Locate, Host: n.Host, Domains: n.domains.OptedOut, Look: n.owners.Look,
	})
	n.Poster = jobs.NewPoster(jobs.PosterDeps{Registry: n.registry, Net: n.ring.net, Ring: n.Ring, Ready: n.Ready, Seeds: n.owners.SendSeeds, Again: n.owners.Again})
	if err := n.page.show(&n.cfg, n.shown(), n.log); err != nil {
		return err
	}
	n.ring.dht.Subscribe(n.ringEvent)
	n.metrics.Of(n.reading)
	close(n.furnished)
	return nil
}

// viewed returns the dependencies of the inspection API.
func (n *Node) viewed() inspect.Deps {
	d := inspect.Deps{
		Self: n.ring.net.Self(), Life: n.stages, Watchers: n.watchers,
		About: inspect.About{
			Name: control.Name(n.cfg.Name), Started: n.started, Incarnation: n.incarnation, Version: n.cfg.Version, Network: n.cfg.Network, Placement: n.cfg.Placement, Governor: n.cfg.Governor,
			Page: n.page.url(), Patience: n.cfg.Patience,
			Budgets: control.Budgets{
				MaxRequestsPerHost: n.cfg.MaxRequestsPerHost, MaxBytesPerHost: n.cfg.MaxBytesPerHost, PageHosts: n.cfg.PageHosts, DomainHosts: n.cfg.DomainHosts,
			},
		},
		Ring: inspect.RingDeps{
			DHT: n.ring.dht, Net: n.ring.net, Router: n.router, WalkFrom: n.ring.walkFrom, Known: n.ring.known, Moving: func() bool { return !n.keeping.Quiet() },
			Refused: n.authorizer.refused, Admission: n.ring.standing,
		},
		Hosts:   inspect.HostDeps{Owners: n.owners, Records: n.store.Keyspace(storage.KeyspaceHosts), Unsent: n.jobs.Unsent, Now: n.clock.Now},
		Crawl:   inspect.CrawlDeps{Worker: n.crawl.Worker, Limits: n.limits, OptOuts: n.optOuts},
		Placing: inspect.PlacingDeps{Placer: n.placer},
		Archive: inspect.ArchiveDeps{Dir: n.archiveDir(), Flush: n.crawl.Flush},
	}
	if n.cfg.Seen == "bloom" {
		d.Hosts.SeenLoss = n.owners.ExpectedLoss
	}
	if n.cfg.Latency != nil {
		d.Placing.SiteRow = n.cfg.Latency.SiteRow
	}
	return d
}

// shown returns the additional dependencies of the dashboard.
func (n *Node) shown() *shown {
	return &shown{n.View, n.Commands, n.Poster, shownDeps{
		Self: n.ring.net.Self(), Net: n.ring.net, Worker: n.crawl.Worker, Recent: &n.recent, Refused: n.authorizer.refused, Look: n.owners.Look, BandwidthCap: n.limits.BandwidthCap, Measured: n.placer.Measured,
	}}
}

func (n *Node) servesJob(id job.ID) error {
	key := ring.JobKey(id.String())
	switch {
	case !n.ring.dht.Serves(key):
		return n.router.Moved(key)
	case !n.keeping.Settled(key):
		return rpc.Busy("the job's record may not have arrived yet") // without its records a budget could be spent twice
	default:
		return nil
	}
}

// spawn runs fn in the background until the peer ends; the owners, which manage it, are created
// later.
func (n *Node) spawn(fn func(ctx context.Context)) { n.owners.Spawn(fn) }

func (n *Node) jobChanged(spec *job.Spec, _ job.State) {
	n.essentials.schedule()
	n.owners.JobChanged(spec.ID)
}

// ringEvent handles ring events; it must not block.
func (n *Node) ringEvent(e dht.Event) {
	if line, ok := inspect.Story(e, n.ring.dht.Size()); ok {
		n.watchers.Tell(line)
		n.metrics.Event(line.Event)
	}
	switch e := e.(type) {
	case dht.PeerDead:
		// A suspended process keeps its connections. Calls that hang on it would keep workers from
		// reporting to its successor.
		n.ring.watch.Died(e.Peer.ID, e.Expelled)
		n.authorizer.left(e.Peer.ID, e.Proven)
		n.spawn(func(context.Context) { n.ring.net.Drop(e.Peer.ID) })
		n.owners.PeerGone(e.Peer.ID)
	case dht.PeerLeft:
		n.ring.watch.Goodbye(e.Peer.ID)
		n.authorizer.left(e.Peer.ID, e.Proven)
		n.owners.PeerGone(e.Peer.ID)
	case dht.ArcChanged, dht.LeavesChanged, dht.StateChanged, dht.AttachedChanged:
		n.ring.leavesChanged()
	case dht.CutOff:
		n.spawn(func(ctx context.Context) { _ = n.ring.dht.StepDown(ctx) }) // its records are handed over as its arc is gone
		return
	default:
		return
	}
	n.keeping.Poke()
	n.ship.Nudge()
}

// Banner returns the start message of a peer.
func (n *Node) Banner() string {
	addr, self := "none yet", strings.TrimSpace(n.cfg.Name+" "+n.ring.net.Self().String())
	if addrs, elsewhere := DialAddrs(n.ring.net.Addrs()); len(addrs) > 0 {
		addr = addrs[0]
		if !elsewhere && n.cfg.Profile == ProfileLab {
			addr += " (this machine only; --listen all for others)"
		}
	}
	page := ""
	if url := n.page.url(); url != "" {
		page = "\ndashboard " + url
	}
	if n.ring.dht.State() == dht.Worker {
		why := "it cannot be dialed"
		if n.ring.net.Reached() == p2p.ReachedUnknown {
			why = "no peer has dialed it yet"
		}
		if a := n.ring.standing(); a != nil && !a.Member {
			why = "it has no certificate (a member invites it: apoidea ring invite " + n.ring.net.Self().String() + ")"
		}
		return fmt.Sprintf("peer %s, worker for a ring of %d: %s\ndata %s%s", self, n.ring.dht.Size(), why, n.cfg.DataDir, page)
	}
	alone := ""
	if n.cfg.Profile == ProfilePublic && n.ring.sources.Empty() && !n.cfg.Found && !n.cfg.MDNS {
		alone = "\nno public ring is built in, so this peer is a ring of its own: join one with --dns-seed NAME or --bootstrap ADDRESS, or found one (docs/founder.md)"
	}
	if n.cfg.MDNS && n.Alone() {
		alone += "\nno peer of network " + n.cfg.Network + " found on the local network; still searching (others need --mdns, too)"
	}
	return fmt.Sprintf("peer %s, ring of %d\ndata %s\naddress %s%s%s", self, n.ring.dht.Size(), n.cfg.DataDir, addr, page, alone)
}

// Wait implements control.Backend.
func (n *Node) Wait(ctx context.Context, id string, patience time.Duration, fn func(control.Progress) error) error {
	if err := n.Ready(ctx); err != nil {
		return err
	}
	if id != "" {
		j, err := n.Job(ctx, id)
		if err != nil {
			return err
		}
		id = j.ID
	}
	return n.WaitIdle(ctx, id, patience, fn)
}

// Alone reports whether no other peer can take over this peer's records: it is the only one, or not
// yet in a ring.
func (n *Node) Alone() bool { return n.ring.dht.State() != dht.Serving || n.ring.dht.Size() <= 1 }

// hosting returns the configuration of the owner of hosts.
func (n *Node) hosting() owner.Config {
	c := owner.DefaultConfig(string(n.ring.net.Self()))
	placing := n.cfg.placing()
	c.TTL, c.Delay, c.SeenBloom, c.Settled = n.cfg.LeaseTTL, n.cfg.Delay, n.cfg.Seen == "bloom", n.keeping.Settled
	c.Fetched, c.RequestTime = n.placer.Observe, placing.RequestTime()
	c.Admission, c.OptOuts, c.ProveOptOuts = n.cfg.DomainHosts > 0, n.optOuts, n.cfg.OptOutProof
	c.MaxRequests, c.PageHosts = int64(n.cfg.MaxRequestsPerHost), n.cfg.PageHosts
	c.MaxHostBytes, c.Near = n.cfg.MaxBytesPerHost, n.authorizer.near
	c.RefreshShare, c.Day = n.cfg.RefreshShare, n.cfg.RefreshDay
	c.CheckRate, c.Sign = n.cfg.CheckRate, n.ring.net.Sign
	c.Certified = func(by string, key ring.Key, text, signature []byte) bool {
		id := peer.ID(by)
		return (id == n.ring.net.Self() || n.ring.dht.Served(id, key)) && n.ring.net.Signed(id, text, signature)
	}
	return c
}

// hosted returns its dependencies.
func (n *Node) hosted() hosts.Deps {
	return hosts.Deps{
		Self: n.ring.net.Self(), Net: n.ring.net, Neighbors: n.ring.neighbors, Router: n.router, Store: n.ship.Space(storage.KeyspaceHosts), Now: n.clock.Now, Jobs: n.registry,
		Place: n.placer.Place, OfferOwn: n.crawl.OfferOwn, ToWorker: n.ring.toWorker, SetLoad: n.placer.SetLoad, Declined: n.placer.Declined,
		Unasked: n.authorizer.unasked,
		Admit:   func(list []owner.Admission) { n.domains.Inquire(list, n.owners.Admitted) }, Log: n.log,
		LeasesEnd: hosts.LeasesEnd(n.ring.watch.LeftAgo, n.cfg.LeaseTTL, n.clock.Now),
	}
}

// ownersService answers workers, senders of links, and opt-outs of hosts.
func (n *Node) ownersService() rpc.Service {
	return rpc.Together(n.owners.Service(), n.wishes.HostsService(n.owners))
}

// leaseClock converts the worker's lease clock, which counts suspend and never goes back, to times
// that can be stored: they are near wall-clock time, and differ by the real time elapsed.
type leaseClock struct {
	base  time.Time
	clock *worker.SystemClock
}

func newLeaseClock() *leaseClock {
	return &leaseClock{base: time.Now().Round(0), clock: worker.NewSystemClock()}
}

// Now returns the current time of the lease clock.
func (c *leaseClock) Now() time.Time { return c.base.Add(c.clock.Now()) }
