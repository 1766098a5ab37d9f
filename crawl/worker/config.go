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

// Config is the configuration of a worker. The zero value of a field selects its default.
type Config struct {
	// Incarnation of this process: greater than that of any earlier one with the same peer ID, such
	// as its start in milliseconds. Required.
	Incarnation uint64
	// Agent is the crawler's product token, matched by robots.txt and robots directives. Required.
	Agent string
	// Politeness towards hosts, addresses and registrable domains. Its GroupDelay applies to all
	// workers together, through Deps.Permits.
	Politeness frontier.Config

	// PermitLimit bounds the requests of all workers together to an address, or an IPv6 /64, in each
	// PermitChunk. The permits come from Deps.Permits. Zero: no limit.
	PermitLimit int
	PermitChunk time.Duration // zero: permit.Chunk, a minute

	// Fetchers is the maximum number of concurrent fetches. A fetcher that waits for a site costs a
	// stack and a connection's buffers; 16 of them hide a round trip of 200 ms at 80 pages a second.
	Fetchers int
	// Governor selects which fetch starts and when while a bandwidth limit is set: one of
	// bandwidth.Names. MaxDepth is how many queue positions it examines for a fetch that fits.
	Governor string
	MaxDepth int // queue positions that the governor examines
	// MaxInFlight bounds what a crash causes to be fetched again: exchanges under way, pages being
	// processed, and outcomes that a responsive owner has not acknowledged. At the bound all batches
	// are sent at once, so that the bound flushes batches and does not stall them.
	//
	// It applies to each owner that acknowledges within ackUnit. A slower one, because of replicas or
	// distance, gets up to mostUnits times as much, and all owners together mostUnitsAll times.
	MaxInFlight int
	// Processors is the number of pages processed concurrently. Zero: one for each CPU that Go may
	// use.
	Processors int
	// MaxHosts bounds the leases held at once. Offers beyond it are declined.
	MaxHosts int
	// Capacity is the number of URLs that the worker accepts. It is reported to owners; offers beyond
	// it are declined.
	Capacity int
	// Window is the most URLs of a host requested ahead. A polite host has fewer: those fetched within
	// Horizon. A longer window means fewer messages, and more URLs that wait if this worker becomes
	// unavailable.
	Window  int
	Horizon time.Duration // how far ahead a polite host's window goes
	// MaxWindowBytes bounds the bytes of all windows. Beyond it a host requests one URL at a time,
	// when it has none left.
	MaxWindowBytes int64

	// TTL of a lease until an owner sets another. The worker stops at three quarters of it.
	TTL time.Duration
	// CallTimeout bounds a Session call.
	CallTimeout time.Duration
	// ReportLinger is how long an outcome waits for others before it is sent to the owner, unless
	// ReportBatch of them wait. Each report costs an fsync here and one at the owner; each delay
	// postpones the URLs that the page links to.
	ReportLinger time.Duration
	ReportBatch  int // outcomes that are sent at once
	// MaxReports bounds the outcomes retained for an unresponsive owner; the oldest beyond it are
	// dropped, and their URLs fetched again.
	MaxReports int
	// MaxReportBytes bounds the bytes of outcomes with the links of their pages. Beyond it, fetching
	// and processing pause until owners have acknowledged some. Of the outcomes for an unresponsive
	// owner the oldest are dropped.
	MaxReportBytes int64
	// ReleaseLinger is how long a host without work is retained, since links to it may be in transit.
	ReleaseLinger time.Duration

	// ClaimLinger is how long a body waits for others before its digest is claimed, unless ClaimBatch
	// of them wait.
	ClaimLinger time.Duration
	ClaimBatch  int // bodies claimed at once
	// WaitFor and MaxParked bound how long, and with how many bytes, bodies wait that another peer has
	// claimed for archiving (design, section 4).
	WaitFor   time.Duration
	MaxParked int64 // bytes of such bodies
	// NoCookies ignores the cookies that sites set. Without it, a host's cookies are sent back to it
	// until its lease ends.
	NoCookies bool
	// ArchiveNoIndex archives pages that ask not to be indexed.
	ArchiveNoIndex bool
	// DuplicatesDrop omits the links of duplicate bodies from reports, as the paper does (Apoidea,
	// 2.1).
	DuplicatesDrop bool

	// MaxMemory bounds the bytes of pages in memory, and of bodies being received beyond
	// fetch.FreeBody each; the rest waits. SetMemory changes it.
	MaxMemory int64
	// KnownLinks is the number of acknowledged links remembered, at 8 bytes each, rounded up to a
	// power of two.
	KnownLinks int
	// StopTimeout bounds a graceful stop: a third of it for requests under way, the rest for pages and
	// reports. Large pages are not waited for; the next worker fetches them again.
	StopTimeout time.Duration
	// Alone, if not nil, reports at a stop whether no other peer can take over. The stop then takes at
	// most a sixth of StopTimeout, because an operator waits for it; what is not reported by then is
	// fetched again after the next start.
	Alone func() bool
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// mostWindows is the default of Config.MaxWindowBytes: some hundred thousand typical URLs.
const mostWindows = 16 << 20

// mostInFlight bounds the default of Config.MaxInFlight, which grows with Fetchers.
const mostInFlight = 256

// mostCapacity bounds the default of Config.Capacity: about half a minute of work for a peer near
// its sites; more would leave other workers idle.
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
	fill(&c.KnownLinks, 256<<10)
	fill(&c.StopTimeout, 6*time.Second)
	fill(&c.PermitChunk, permit.Chunk)
}

// decisions returns the configuration of the visits state machine.
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

// pages returns the configuration of the page pipeline.
func (c *Config) pages() pages.Config {
	return pages.Config{
		Agent: c.Agent, Processors: c.Processors, MaxMemory: c.MaxMemory, ClaimLinger: c.ClaimLinger, ClaimBatch: c.ClaimBatch,
		WaitFor: c.WaitFor, MaxParked: c.MaxParked, DuplicatesDrop: c.DuplicatesDrop, ArchiveNoIndex: c.ArchiveNoIndex,
	}
}

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	if c.Incarnation == 0 {
		return fmt.Errorf("worker config: Incarnation 0: must be positive")
	}
	if c.Agent == "" {
		return fmt.Errorf("worker config: Agent: must not be empty")
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
			return fmt.Errorf("worker config: %s %d: must not be negative", name, n)
		}
	}
	for name, d := range map[string]time.Duration{
		"Horizon": c.Horizon, "TTL": c.TTL, "CallTimeout": c.CallTimeout, "ReportLinger": c.ReportLinger, "ReleaseLinger": c.ReleaseLinger,
		"ClaimLinger": c.ClaimLinger, "WaitFor": c.WaitFor, "StopTimeout": c.StopTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("worker config: %s %v: must not be negative", name, d)
		}
	}
	return nil
}
