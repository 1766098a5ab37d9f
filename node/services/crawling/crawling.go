// Package crawling runs the worker of a peer, [crawl/worker.Worker], with its dependencies: the
// fetcher, the archive, the disk for pages without memory, and the clients for the owners of hosts
// and of bodies.
//
// Guarantees:
//   - the worker finds the next owner of a host that has moved, or whose owner is gone, within
//     bounded time (TestSessionFindsTheNextOwner, TestSessionSeeksWithinBounds);
//   - after a crash the owners of bodies receive confirmations for the archive files that it left
//     open (TestFoundAfterACrash; cmd/apoidea has TestKilledPeerArchivesNoBodyTwice);
//   - a page becomes a reference only to a body that its holder has proved, or that is in the
//     peer's own archive (TestNobodyIsBelieved, TestOwnBodiesFirst; node has TestVouching);
//   - an unresponsive content owner delays no page: its bodies count as new
//     (TestContentWithoutAnswer).
package crawling

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage/warc"
)

const (
	// memoryShare is the divisor of the memory limit that yields the share of pages.
	memoryShare = 4
	// unboundMemory is the memory of pages without a memory limit, in bytes.
	unboundMemory = 128 << 20
)

// PageMemory returns the memory for pages under that memory limit, 0 for none.
func PageMemory(bound int64) int64 {
	if bound <= 0 {
		return unboundMemory
	}
	return max(bound/memoryShare, 1)
}

// Config is the configuration of a crawl.
type Config struct {
	// DataDir contains the directory of the archive.
	DataDir string
	Fetch   fetch.Config // bounds of an exchange
	Archive warc.Config  // how WARC files are written
	// Worker is the configuration of the worker.
	Worker worker.Config
	// Holidays are days on which servers are expected to be as fast as at weekends.
	Holidays []string
}

// ArchiveDir returns the directory of the archive in a data directory.
func ArchiveDir(dataDir string) string { return filepath.Join(dataDir, "archive") }

// Deps are the dependencies of a crawl.
type Deps struct {
	Self peer.ID // this peer
	// Signed reports whether a peer has signed a text.
	Signed func(by peer.ID, text, signature []byte) bool
	// Router finds the owners of hosts, Send sends messages of the worker to one of them, which may be
	// this peer.
	Router *rpc.Router
	// Send sends a message of the worker to an owner.
	Send func(ctx context.Context, to peer.ID, m *wire.Session) (*wire.SessionReply, error)
	// Bodies is the index of the archive.
	Bodies *Bodies
	// Content, Jobs, OptOuts, Permits and Clock are passed to the worker.
	Content pages.Content
	Jobs    reports.Specs  // specs of jobs
	OptOuts worker.OptOuts // this peer's own lists
	Permits worker.Permits // for requests to an address, shared with the ring
	Clock   worker.Clock   // the lease clock
	// Fetched is called with the duration of an exchange, and whether there was an answer.
	Fetched func(took time.Duration, answered bool)
	// Outcome is called with the outcome of each URL; it must not block.
	Outcome func(worker.Event)
	// Paused reports whether the peer accepts no hosts.
	Paused func() bool
	Log    *slog.Logger // for the worker and its sessions
}

// Crawl is the worker with its dependencies.
type Crawl struct {
	// Worker is the worker itself, Fetcher makes its exchanges.
	Worker  *worker.Worker
	Fetcher *fetch.Fetcher // makes exchanges

	deps    Deps
	archive *archive
	untold  []reports.Confirmation // of bodies found after a crash, perhaps not confirmed before
}

// New opens the archive, and returns a Crawl that starts when the worker runs. After an error
// nothing is left open.
func New(cfg Config, d Deps) (c *Crawl, err error) {
	c = &Crawl{deps: d}
	if c.Fetcher, err = fetch.New(cfg.Fetch); err != nil {
		return nil, err
	}
	cfg.Archive.Found = c.found
	if c.archive, err = openArchive(ArchiveDir(cfg.DataDir), cfg.Archive, d.Bodies); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	estimates := bandwidth.NewEstimates(bandwidth.EstimatesConfig{Holidays: cfg.Holidays})
	c.Worker, err = worker.New(cfg.Worker, worker.Deps{
		Owners: sessions{say: d.Send, router: d.Router, log: d.Log}, Fetch: timedFetcher{c.Fetcher, d.Fetched}, Archive: c.archive, Content: d.Content, Jobs: d.Jobs,
		Clock: d.Clock, Log: d.Log, Estimates: estimates, OptOuts: d.OptOuts, Permits: d.Permits, Receipt: c.receipt,
		Events: d.Outcome,
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

const (
	// maxUntold bounds the bodies confirmed after a crash, to the latest ones; tellFirst bounds how
	// long that delays the crawl.
	maxUntold = 8192
	tellFirst = 2 * time.Second
)

// found records a response from an archive file that a crash left open. Only bodies that are
// claimed are confirmed: of pages, and not empty.
func (c *Crawl) found(e warc.Entry, at warc.Ref) {
	k, ok := confirmationOf(e)
	if !ok {
		return
	}
	c.deps.Bodies.add(k.Digest, at)
	if c.untold = append(c.untold, k); len(c.untold) >= 2*maxUntold {
		c.untold = append(c.untold[:0], c.untold[maxUntold:]...)
	}
}

// confirmationOf returns the confirmation of a response's body.
func confirmationOf(e warc.Entry) (k reports.Confirmation, ok bool) {
	digest, err := hex.DecodeString(strings.TrimPrefix(e.Digest, "sha256:"))
	if err != nil || len(digest) != len(k.Digest) || !strings.HasPrefix(e.Status, "2") || [32]byte(digest) == sha256.Sum256(nil) {
		return k, false
	}
	return reports.Confirmation{Digest: [32]byte(digest), URL: e.URL, RecordID: e.RecordID, Date: e.Date}, true
}

// Run crawls until ctx ends. After a crash it first confirms what lies in the archive to the
// content owners; otherwise bodies met again would be archived once more.
func (c *Crawl) Run(ctx context.Context) error {
	untold := c.untold[max(len(c.untold)-maxUntold, 0):]
	c.untold = nil
	if len(untold) > 0 {
		first, cancel := context.WithTimeout(ctx, tellFirst)
		if err := c.deps.Content.Confirm(first, untold); err != nil {
			c.deps.Log.Debug("bodies archived before the crash not confirmed", "bodies", len(untold), "err", err)
		}
		cancel()
	}
	return c.Worker.Run(ctx)
}

// Flush syncs the archive to disk, for an export.
func (c *Crawl) Flush() error { return c.archive.Sync() }

// Close releases what New opened.
func (c *Crawl) Close() error {
	var errs []error
	if c.Fetcher != nil {
		c.Fetcher.Close()
	}
	if c.archive != nil {
		errs = append(errs, c.archive.writer.Close())
	}
	return errors.Join(errs...)
}

// OfferOwn offers hosts that this peer itself owns.
func (c *Crawl) OfferOwn(hosts []string) (declined []int) {
	return c.Worker.Offer(string(c.deps.Self), hosts)
}

// Offered answers the offer of an owner. It declines hosts presumed to have another owner.
func (c *Crawl) Offered(ctx context.Context, from peer.ID, m *wire.Offer) (*wire.OfferReply, error) {
	if c.deps.Paused() {
		return nil, rpc.Busy(wire.PausedText) // a paused worker declines
	}
	keys := make([]ring.Key, len(m.GetHosts()))
	for i, host := range m.GetHosts() {
		keys[i] = ring.HostKey(host)
	}
	var own []string
	var places []uint32 // of own in the offer
	reply := &wire.OfferReply{}
	for i, owns := range rpc.OfOwner(ctx, keys...) {
		if place := uint32(i); owns { // an index of a bounded list
			own, places = append(own, m.GetHosts()[i]), append(places, place)
		} else {
			reply.Declined = append(reply.Declined, place)
		}
	}
	for _, i := range c.Worker.Offer(string(from), own) {
		reply.Declined = append(reply.Declined, places[i])
	}
	return reply, nil
}

// timedFetcher reports the duration of exchanges.
type timedFetcher struct {
	worker.Fetcher
	fetched func(took time.Duration, answered bool)
}

// Get implements worker.Fetcher. Exchanges not permitted, or ended here, are not reported.
func (f timedFetcher) Get(ctx context.Context, req *fetch.Request) (*fetch.Response, error) {
	begin := time.Now()
	resp, err := f.Fetcher.Get(ctx, req)
	if _, failed := errors.AsType[*fetch.Error](err); err == nil || failed {
		f.fetched(time.Since(begin), err == nil)
	}
	return resp, err
}
