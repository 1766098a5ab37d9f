package node

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/resolve"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/crawl/worker/clock"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/placing"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/spill"
)

// productToken is how robots.txt names this crawler.
const productToken = "apoidea"

const (
	// maxSpilled bounds what pages that memory has no room for take on disk, in bytes: a quarter of it those that wait to be processed, the rest those on their way.
	maxSpilled = 4 << 30
	// spillReserve is how much more than the disk's reserve must be free for them, in bytes, as at the reserve the peer stops.
	spillReserve = 64 << 20
	// memoryShare is the part of the bound on memory that pages have.
	memoryShare = 4
	// unboundMemory is what pages have where memory has no bound, in bytes.
	unboundMemory = 128 << 20
)

// pageMemory is what pages may take of that bound on memory, 0 for none.
func pageMemory(bound int64) int64 {
	if bound <= 0 {
		return unboundMemory
	}
	return max(bound/memoryShare, 1)
}

// leaseClock turns the worker's lease clock, which counts suspend and never goes back, into times that can be stored: they are near the wall
// clock's, and differ between two readings by what has really gone by.
type leaseClock struct {
	base  time.Time
	clock *clock.System
}

func newLeaseClock() *leaseClock {
	return &leaseClock{base: time.Now().Round(0), clock: clock.New()}
}

// Now is the present time of the lease clock.
func (c *leaseClock) Now() time.Time { return c.base.Add(c.clock.Now()) }

// crawlRoom is the worker with everything it needs: fetcher, resolver, archive, and its ways to owners of hosts and of bodies.
type crawlRoom struct {
	node    *Node
	clock   *leaseClock
	fetcher *fetch.Fetcher
	archive *archive
	spill   *spill.Dir
	worker  *worker.Worker
	servers serverRecords
}

func newCrawlRoom(n *Node) (c *crawlRoom, err error) {
	c = &crawlRoom{node: n, clock: n.clock}
	resolver := resolve.Config{}
	if n.cfg.DNSServer != "" {
		resolver.Servers = []string{n.cfg.ResolverAddr()}
	}
	if n.cfg.FetchFrom.Is4() {
		resolver.NoIPv6 = true
	}
	fetching := fetch.Config{
		UserAgent: n.cfg.UserAgent(), Resolver: resolve.New(resolver), AllowPrivate: n.cfg.AllowPrivate, AllowPrefixes: n.cfg.AllowPrefixes, LocalAddr: n.cfg.FetchFrom,
		MaxBody: n.cfg.MaxBody, Line: n.line.Line, From: cmp.Or(n.cfg.From, mailOf(n.cfg.Contact)), Refused: n.optOuts.Refused,
	}
	n.cfg.distant(&fetching)
	if c.fetcher, err = fetch.New(fetching); err != nil {
		return nil, err
	}
	self := n.room.net.Self()
	if c.archive, err = openArchive(n.archiveDir(), &n.cfg, p2p.Short(self)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	// What does not work now is tried again when there is need for it; until then it is only told.
	if c.spill, err = spill.Open(spill.Config{Path: filepath.Join(n.cfg.DataDir, "spill"), MaxBytes: maxSpilled, Room: n.spillRoom}); err != nil {
		n.log.Warn("pages that memory has no room for may find none on disk", "err", err)
	}
	c.servers = serverRecords{n.store.Keyspace(storage.KeyspaceServers)}
	estimates := bandwidth.NewEstimates(bandwidth.EstimatesConfig{Holidays: n.cfg.Holidays})
	if err = estimates.Load(c.servers); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.worker, err = worker.New(worker.Config{
		Incarnation: n.incarnation, Agent: productToken, Politeness: frontier.Config{Delay: n.cfg.Delay}, Fetchers: n.cfg.Fetchers,
		TTL: n.cfg.LeaseTTL, DuplicatesDrop: n.cfg.Duplicates == "drop", Governor: n.cfg.Governor, MaxDepth: n.cfg.MaxDepth,
		PermitLimit: n.cfg.IPPermits, PermitChunk: n.cfg.PermitChunk,
		MaxMemory: pageMemory(n.cfg.Limits.Memory), MaxSpilled: maxSpilled / 4, Alone: func() bool { return n.cfg.OwnProcess && n.Alone() },
	}, worker.Deps{
		Owners: newSessions(n), Fetch: timedFetcher{c.fetcher, n.metrics}, Archive: c.archive, Content: bodies{n}, Jobs: n.book, Spill: spilling{c.spill}, Clock: c.clock.clock,
		Log: n.log, Estimates: estimates, OptOuts: n.optOuts, Permits: n.permits,
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func withPort(server string) string {
	if _, err := netip.ParseAddrPort(server); err == nil {
		return server
	}
	if a, err := netip.ParseAddr(server); err == nil {
		return netip.AddrPortFrom(a, 53).String()
	}
	return server
}

// run crawls until ctx ends, then reports and gives back what it holds.
func (c *crawlRoom) run(ctx context.Context) error { return c.worker.Run(ctx) }

// flush puts what is archived so far on disk, for an export.
func (c *crawlRoom) flush() error { return c.archive.Sync() }

func (c *crawlRoom) close() error {
	var errs []error
	if c.fetcher != nil {
		c.fetcher.Close()
	}
	if c.spill != nil {
		errs = append(errs, c.spill.Close())
	}
	if c.archive != nil {
		errs = append(errs, c.archive.writer.Close())
	}
	return errors.Join(errs...)
}

func (c *crawlRoom) offerOwn(hosts []string) (declined []int) {
	return c.worker.Offer(string(c.node.room.net.Self()), hosts)
}

// spillRoom refuses pages on a disk that is near its reserve.
func (n *Node) spillRoom() error {
	if n.cfg.spillRoom != nil {
		return n.cfg.spillRoom()
	}
	reserve := n.cfg.DiskReserve
	if n.limits != nil {
		reserve = n.limits.Reserve()
	}
	return storage.NewGuard(n.cfg.DataDir, reserve+spillReserve).Check()
}

// spilling lends the spill to the worker.
type spilling struct{ dir *spill.Dir }

// Create implements pages.Spill.
func (s spilling) Create() (fetch.Spilled, error) {
	file, err := s.dir.Create()
	if err != nil {
		return nil, err
	}
	return file, nil
}

// handler answers owners: offers of hosts, and probes of sites.
func (c *crawlRoom) handler() p2p.Handler {
	return rpc.Tagged{
		tagOffer:           offers.Handle(c.offered),
		placing.Probes.Tag: c.node.placer.HandleProbe(),
	}.Handle
}

func (c *crawlRoom) offered(_ context.Context, from peer.ID, m *wire.Offer) (*wire.OfferReply, error) {
	if c.node.limits.Paused() {
		return nil, rpc.Refuse("%s", wire.PausedText)
	}
	reply := &wire.OfferReply{}
	for _, i := range c.worker.Offer(string(from), m.GetHosts()) {
		reply.Declined = append(reply.Declined, uint32(i)) //nolint:gosec // an index of a bounded list
	}
	return reply, nil
}

// bodies lets the worker ask the owners of bodies.
type bodies struct{ n *Node }

var _ pages.Content = bodies{}

// Claim implements pages.Content.
func (b bodies) Claim(ctx context.Context, q []pages.Question) ([]pages.Answer, error) {
	claims := make([]claim, len(q))
	for i := range q {
		claims[i] = claim{digest: q[i].Digest, url: q[i].URL}
	}
	answers := make([]pages.Answer, len(q))
	for i, a := range b.n.contents.ask(ctx, claims, nil) {
		switch a.Verdict {
		case dedup.Known:
			answers[i] = pages.Answer{Verdict: pages.Known, Original: pages.Original{URL: a.Record.URL, RecordID: a.Record.RecordID, Date: a.Record.Date}}
		case dedup.Wait:
			answers[i].Verdict = pages.Wait
		case dedup.New:
		}
	}
	return answers, nil
}

// Confirm implements pages.Content.
func (b bodies) Confirm(ctx context.Context, c []reports.Confirmation) error {
	confirms := make([]confirmation, len(c))
	for i := range c {
		confirms[i] = confirmation{digest: c[i].Digest, url: c[i].URL, record: c[i].RecordID, date: c[i].Date}
	}
	b.n.contents.ask(ctx, nil, confirms)
	return nil
}
