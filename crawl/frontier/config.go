package frontier

import (
	"fmt"
	"time"
)

const (
	// DefaultMaxCrawlDelay limits the Crawl-delay of robots.txt: beyond a minute a page, a host of
	// some size would never be finished.
	DefaultMaxCrawlDelay = time.Minute
	// DefaultFactor of the response time: a site that takes two seconds a page gets a delay of four
	// seconds.
	DefaultFactor = 2
	// DefaultMaxAdaptive limits the delay by the factor, so that one stalled answer does not stop a
	// host.
	DefaultMaxAdaptive = 30 * time.Second
	// DefaultPerIP is the number of concurrent requests to one address.
	DefaultPerIP = 4
	// ipShare: the minimum gap between requests to one address is the floor divided by it.
	ipShare = 4
)

// Config is the configuration of politeness.
type Config struct {
	// Delay is the floor: the minimum time from the end of a request to the next one of the same host.
	// With zero there is no limit, unless a robots.txt sets one: neither Factor nor the limits per
	// address apply then.
	Delay time.Duration
	// MaxCrawlDelay limits the delay of robots.txt. Zero: DefaultMaxCrawlDelay.
	MaxCrawlDelay time.Duration
	// Factor is multiplied by the duration of the last request. Zero: DefaultFactor; negative: none.
	Factor float64
	// MaxAdaptive limits that product. Zero: DefaultMaxAdaptive.
	MaxAdaptive time.Duration
	// PerIP limits the concurrent requests to one address. Zero: DefaultPerIP; negative: no limit.
	PerIP int
	// IPDelay is the minimum time between the starts of two requests to one address. Zero: a quarter
	// of Delay; negative: none.
	IPDelay time.Duration
	// Group returns the group of a host, such as its registrable domain. Groups are served
	// round-robin, so that one with thousands of hosts gets no more fetchers than others. Nil: all
	// hosts are of one group.
	Group func(host string) string
	// GroupDelay is the minimum time from the end of a request to the next one of the same group,
	// whose hosts then have one visit at a time. Zero: no delay of groups.
	GroupDelay time.Duration
}

func (c *Config) fill() {
	if c.MaxCrawlDelay == 0 {
		c.MaxCrawlDelay = DefaultMaxCrawlDelay
	}
	if c.Factor == 0 {
		c.Factor = DefaultFactor
	}
	if c.MaxAdaptive == 0 {
		c.MaxAdaptive = DefaultMaxAdaptive
	}
	if c.PerIP == 0 {
		c.PerIP = DefaultPerIP
	}
	if c.IPDelay == 0 {
		c.IPDelay = c.Delay / ipShare
	}
	if c.Delay == 0 {
		c.Factor, c.PerIP, c.IPDelay = -1, -1, -1
	}
}

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	if c.Delay < 0 {
		return fmt.Errorf("frontier config: Delay %v: must not be negative", c.Delay)
	}
	if c.GroupDelay < 0 {
		return fmt.Errorf("frontier config: GroupDelay %v: must not be negative", c.GroupDelay)
	}
	if c.MaxCrawlDelay < 0 {
		return fmt.Errorf("frontier config: MaxCrawlDelay %v: must not be negative", c.MaxCrawlDelay)
	}
	if c.MaxAdaptive < 0 {
		return fmt.Errorf("frontier config: MaxAdaptive %v: must not be negative", c.MaxAdaptive)
	}
	return nil
}
