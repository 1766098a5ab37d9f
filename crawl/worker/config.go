package worker

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// Config holds the knobs of a worker. The zero value of a field means its default.
type Config struct {
	// Incarnation of this process: greater than that of any earlier one with the same peer ID, such
	// as its start in milliseconds. Required.
	Incarnation uint64
	// Agent is the crawler's product token, by which robots.txt and robots directives name it.
	// Required.
	Agent string
	// Politeness towards hosts, addresses and registrable domains. The GroupDelay of these holds for
	// all workers together, by Deps.Permits.
	Politeness frontier.Config

	// PermitLimit is how many requests all workers together may make to an address, or an IPv6 /64,
	// in each PermitChunk. Deps.Permits is asked for them. Zero: no limit.
	PermitLimit int
	PermitChunk time.Duration // zero: permit.Chunk, a minute

	// Fetchers bounds the exchanges under way at once. A fetcher that waits for a site costs a
	// stack and a connection's buffers; 16 of them hide a round trip of 200 ms at 80 pages a
	// second.
	Fetchers int
	// Governor decides, while there is a cap on bandwidth, which fetch starts and when: one of
	// bandwidth.Names. MaxDepth is how far down the order of scores it looks for one that fits.
	Governor string
	MaxDepth int // queue positions that the governor looks at
	// MaxInFlight bounds what a crash would have fetched again: exchanges under way, pages on their
	// way, and outcomes that an owner which answers has not acknowledged. At the bound everything
	// that waits for company is sent at once, so that the bound makes batches and does not break
	// them.
	//
	// It holds for each owner that acknowledges within ackUnit. One that takes longer, as replicas
	// and distances do, counts for up to mostUnits, and all together for mostUnitsAll.
	MaxInFlight int
	// Processors is the number of pages worked on at once. Zero: one for each CPU that Go may use.
	Processors int
	// MaxHosts bounds the leases held at once. Offers beyond it are declined.
	MaxHosts int
	// Capacity is the number of URLs that the worker would hold; it is told to owners, and offers
	// beyond it are declined.
	Capacity int
	// Window is the most URLs of a host asked for ahead. A polite host has fewer: what is fetched
	// in Horizon. A longer window means fewer messages, and more that waits elsewhere while this
	// worker is away.
	Window  int
	Horizon time.Duration // how far ahead a polite host's window goes
	// MaxWindowBytes bounds the bytes of all hosts' windows: beyond it a host asks for one URL more
	// when it has none.
	MaxWindowBytes int64

	// TTL of a lease until an owner says another. The worker stops at three quarters of it.
	TTL time.Duration
	// CallTimeout bounds a Session call.
	CallTimeout time.Duration
	// ReportLinger is how long an outcome waits for others before it is told to the owner, unless
	// ReportBatch of them wait. Each report costs an fsync here and one at the owner; each delay
	// holds up what the page links to.
	ReportLinger time.Duration
	ReportBatch  int // outcomes that are told at once
	// MaxReports bounds the outcomes kept for an owner that does not answer; the oldest beyond it
	// are forgotten, and fetched again.
	MaxReports int
	// MaxReportBytes bounds the bytes of outcomes with the links of their pages. Beyond it nothing
	// further is fetched or worked on until owners have acknowledged some; of outcomes for an owner
	// that does not answer the oldest are forgotten.
	MaxReportBytes int64
	// ReleaseLinger is how long a host without work is kept: links to it may be on their way.
	ReleaseLinger time.Duration

	// ClaimLinger is how long a body waits for others before its digest is asked, unless ClaimBatch
	// of them wait.
	ClaimLinger time.Duration
	ClaimBatch  int // bodies that are asked about at once
	// WaitFor and MaxParked bound how long, and with how many bytes, bodies wait that somebody else
	// is said to be archiving (design, section 4).
	WaitFor   time.Duration
	MaxParked int64 // bytes of such bodies
	// NoCookies ignores the cookies that sites set. Without it those of a host are sent back to it
	// until its lease ends.
	NoCookies bool
	// ArchiveNoIndex archives pages that ask not to be indexed.
	ArchiveNoIndex bool
	// DuplicatesDrop leaves the links of known bodies unreported: the paper's rule (Apoidea, 2.1).
	DuplicatesDrop bool

	// MaxMemory bounds the bytes of pages in memory, and of bodies on their way beyond
	// fetch.FreeBody each; those beyond it go to the Spill. SetMemory changes it.
	MaxMemory int64
	// MaxSpilled is how many bytes of pages wait in the Spill at most before no further exchange
	// begins.
	MaxSpilled int64
	// KnownLinks is the number of acknowledged links remembered, at 8 bytes each, rounded up to a
	// power of two.
	KnownLinks int
	// StopTimeout bounds a graceful stop: a third of it for requests under way, the rest for pages
	// and reports. Large pages are not waited for: they are fetched again by whoever comes next.
	StopTimeout time.Duration
	// Alone, if not nil, is asked at a stop whether nobody takes over from this peer. Then a person
	// waits for the end, and the stop takes a sixth of StopTimeout at most: what is not told by
	// then is fetched again after the next start.
	Alone func() bool
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// mostWindows is the default of Config.MaxWindowBytes: some hundred thousand usual URLs.
const mostWindows = 16 << 20

// mostInFlight is what a crash would have fetched again at most, of pages of an owner that is near,
// unless Config.MaxInFlight says otherwise: more fetchers make it no more.
const mostInFlight = 256

// mostCapacity is half a minute's work of a peer that is near its sites: with more in hand others
// would stand idle.
const mostCapacity = 8192

func (c *Config) fill() {
	d := session.DefaultConfig()
	fill(&c.Fetchers, 16)
	fill(&c.Governor, bandwidth.Ours)
	fill(&c.MaxDepth, bandwidth.DefaultMaxDepth)
	fill(&c.MaxInFlight, min(max(64, 2*c.Fetchers), mostInFlight))
	fill(&c.Processors, runtime.GOMAXPROCS(0))
	fill(&c.MaxHosts, d.MaxHosts)
	fill(&c.Capacity, min(c.Fetchers*256, mostCapacity))
	fill(&c.Window, d.Window)
	fill(&c.Horizon, d.Horizon)
	fill(&c.MaxWindowBytes, mostWindows)
	fill(&c.TTL, d.TTL)
	fill(&c.CallTimeout, c.TTL/2)
	fill(&c.ReportLinger, d.ReportLinger)
	fill(&c.ReportBatch, d.ReportBatch)
	fill(&c.MaxReports, d.MaxReports)
	fill(&c.MaxReportBytes, d.MaxReportBytes)
	fill(&c.ReleaseLinger, d.ReleaseLinger)
	fill(&c.ClaimLinger, 100*time.Millisecond)
	fill(&c.ClaimBatch, 64)
	fill(&c.WaitFor, 2*time.Second)
	fill(&c.MaxParked, 8<<20)
	fill(&c.MaxMemory, 32<<20)
	fill(&c.MaxSpilled, 1<<30)
	fill(&c.KnownLinks, 256<<10)
	fill(&c.StopTimeout, 6*time.Second)
	fill(&c.PermitChunk, permit.Chunk)
}

// decisions is what the machine that decides obeys.
func (w *Worker) decisions() visits.Config {
	of := &w.cfg
	c := visits.Config{
		Sessions: session.Config{
			Incarnation: of.Incarnation, MaxHosts: of.MaxHosts, Capacity: of.Capacity, Window: of.Window, Horizon: of.Horizon, TTL: of.TTL,
			ReportLinger: of.ReportLinger, ReleaseLinger: of.ReleaseLinger, ReportBatch: of.ReportBatch, MaxReports: of.MaxReports, MaxReportBytes: of.MaxReportBytes,
		},
		Politeness: of.Politeness, Agent: of.Agent, Fetchers: of.Fetchers, MaxInFlight: of.MaxInFlight, MaxDepth: of.MaxDepth,
		MaxWindowBytes: of.MaxWindowBytes, NoCookies: of.NoCookies, Known: w.known, Estimates: w.deps.Estimates,
	}
	c.Politeness.Group = domain.Of
	if w.permits != nil {
		c.Permits = w.permits
	}
	return c
}

// pages is what of it the pipeline of pages obeys.
func (c *Config) pages() pages.Config {
	return pages.Config{
		Agent: c.Agent, Processors: c.Processors, MaxMemory: c.MaxMemory, MaxSpilled: c.MaxSpilled, ClaimLinger: c.ClaimLinger, ClaimBatch: c.ClaimBatch,
		WaitFor: c.WaitFor, MaxParked: c.MaxParked, DuplicatesDrop: c.DuplicatesDrop, ArchiveNoIndex: c.ArchiveNoIndex,
	}
}

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	if c.Incarnation == 0 {
		return fmt.Errorf("worker config: Incarnation is zero")
	}
	if c.Agent == "" {
		return fmt.Errorf("worker config: Agent is empty")
	}
	if err := c.Politeness.Validate(); err != nil {
		return fmt.Errorf("worker config: Politeness: %w", err)
	}
	if c.Governor != "" && !slices.Contains(bandwidth.Names(), c.Governor) {
		return fmt.Errorf("worker config: Governor %q: must be one of %v", c.Governor, bandwidth.Names())
	}
	if c.MaxDepth < 0 || c.MaxDepth > bandwidth.MaxMaxDepth {
		return fmt.Errorf("worker config: MaxDepth %d: must be between 0 and %d", c.MaxDepth, bandwidth.MaxMaxDepth)
	}
	for name, n := range map[string]int{
		"Fetchers": c.Fetchers, "MaxInFlight": c.MaxInFlight, "Processors": c.Processors, "MaxHosts": c.MaxHosts, "Capacity": c.Capacity, "Window": c.Window,
		"ReportBatch": c.ReportBatch, "MaxReports": c.MaxReports, "ClaimBatch": c.ClaimBatch, "KnownLinks": c.KnownLinks,
		"PermitLimit": c.PermitLimit,
	} {
		if n < 0 {
			return fmt.Errorf("worker config: %s %d is negative", name, n)
		}
	}
	for name, d := range map[string]time.Duration{
		"Horizon": c.Horizon, "TTL": c.TTL, "CallTimeout": c.CallTimeout, "ReportLinger": c.ReportLinger, "ReleaseLinger": c.ReleaseLinger,
		"ClaimLinger": c.ClaimLinger, "WaitFor": c.WaitFor, "StopTimeout": c.StopTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("worker config: %s %v is negative", name, d)
		}
	}
	return nil
}
