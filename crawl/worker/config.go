package worker

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// Config is the configuration of a worker, made by DefaultConfig. Sessions.Incarnation and Agent
// are required. New sets the fields Known, Permits and Estimates, and that the pages share.
type Config struct {
	visits.Config
	Pages pages.Config // of the page pipeline

	// PermitLimit bounds the requests of all workers together to an address, or an IPv6 /64, in each
	// PermitChunk. The permits come from Deps.Permits. Zero: no limit.
	PermitLimit int
	PermitChunk time.Duration
	// Governor selects which fetch starts and when while a bandwidth limit is set: one of
	// bandwidth.Names.
	Governor string
	// StopTimeout bounds a graceful stop: a third of it for requests under way, a third for pages, the
	// rest for reports. Pages that are not processed by then are fetched again by the next worker.
	StopTimeout time.Duration
	// Alone, if not nil, reports at a stop whether no other peer can take over. The stop then takes at
	// most a sixth of StopTimeout, because an operator waits for it; what is not reported by then is
	// fetched again after the next start.
	Alone func() bool
}

// mostWindows is the default of Config.MaxWindowBytes: some hundred thousand typical URLs.
const mostWindows = 16 << 20

// knownLinks is the number of acknowledged links remembered, at 8 bytes each.
const knownLinks = 256 << 10

// DefaultConfig returns the defaults for a maximum number of concurrent fetches. A fetcher that
// waits for a site costs a stack and a connection's buffers; 16 of them hide a round trip of 200 ms
// at 80 pages a second.
func DefaultConfig(fetchers int) Config {
	sessions := session.DefaultConfig()
	// About half a minute of work for a peer near its sites; more would leave other workers idle.
	sessions.Capacity = min(fetchers*256, 8192)
	return Config{
		Config: visits.Config{
			Sessions: sessions, Fetchers: fetchers, MaxInFlight: min(max(64, 2*fetchers), 256), MaxDepth: bandwidth.DefaultMaxDepth,
			MaxWindowBytes: mostWindows,
		},
		Pages:       pages.Config{Processors: runtime.GOMAXPROCS(0), MaxMemory: 32 << 20, ClaimLinger: 100 * time.Millisecond, MaxParked: 8 << 20},
		PermitChunk: permit.Chunk, Governor: bandwidth.Ours, StopTimeout: 6 * time.Second,
	}
}

// callTimeout bounds a Session call.
func (c *Config) callTimeout() time.Duration { return c.Sessions.TTL / 2 }

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	switch {
	case c.Sessions.Incarnation == 0:
		return errors.New("worker config: Incarnation 0: must be positive")
	case c.Agent == "":
		return errors.New("worker config: Agent: must not be empty")
	case c.Fetchers <= 0:
		return fmt.Errorf("worker config: Fetchers %d: must be positive", c.Fetchers)
	case c.Sessions.TTL <= 0:
		return fmt.Errorf("worker config: TTL %v: must be positive", c.Sessions.TTL)
	case !slices.Contains(bandwidth.Names(), c.Governor):
		return fmt.Errorf("worker config: Governor %q: must be one of %v", c.Governor, bandwidth.Names())
	case c.MaxDepth < 0 || c.MaxDepth > bandwidth.MaxMaxDepth:
		return fmt.Errorf("worker config: MaxDepth %d: must be between 0 and %d", c.MaxDepth, bandwidth.MaxMaxDepth)
	}
	if err := c.Politeness.Validate(); err != nil {
		return fmt.Errorf("worker config: Politeness: %w", err)
	}
	return nil
}
