package frontier

import (
	"fmt"
	"time"
)

const (
	// DefaultMaxCrawlDelay caps what robots.txt may ask: beyond a minute a page, a host of some
	// size would never be finished.
	DefaultMaxCrawlDelay = time.Minute
	// DefaultFactor of the response time: a site that takes two seconds a page gets four seconds of
	// rest.
	DefaultFactor = 2
	// DefaultMaxAdaptive caps the delay that the factor comes to, so that one stalled answer does
	// not stop a host.
	DefaultMaxAdaptive = 30 * time.Second
	// DefaultPerIP is the number of requests at once to one address.
	DefaultPerIP = 4
	// ipShare of the floor is the least gap between requests to one address: four times as often as
	// one host may be asked.
	ipShare = 4
)

// Config says how polite to be.
type Config struct {
	// Delay is the floor: the least time from the end of a request to the next one of the same
	// host. With zero there is no limit at all, unless a robots.txt asks for one: neither Factor
	// nor the bounds per address hold then.
	Delay time.Duration
	// MaxCrawlDelay caps the delay of robots.txt. Zero: DefaultMaxCrawlDelay.
	MaxCrawlDelay time.Duration
	// Factor is multiplied with the time of the last request. Zero: DefaultFactor; negative: none.
	Factor float64
	// MaxAdaptive caps that product. Zero: DefaultMaxAdaptive.
	MaxAdaptive time.Duration
	// PerIP bounds the requests at once to one address. Zero: DefaultPerIP; negative: no bound.
	PerIP int
	// IPDelay is the least time between the starts of two requests to one address. Zero: a quarter
	// of Delay; negative: none.
	IPDelay time.Duration
	// Group names what a host belongs to, such as its registrable domain. Groups have turns, so
	// that one of thousands of hosts gets no more of the fetchers than others do. Nil: all hosts
	// are of one group.
	Group func(host string) string
	// GroupDelay is the least time from the end of a request to the next one of the same group,
	// whose hosts have one visit at a time then. Zero: a group owes nothing.
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

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	if c.Delay < 0 {
		return fmt.Errorf("frontier config: Delay %v is negative", c.Delay)
	}
	if c.GroupDelay < 0 {
		return fmt.Errorf("frontier config: GroupDelay %v is negative", c.GroupDelay)
	}
	if c.MaxCrawlDelay < 0 {
		return fmt.Errorf("frontier config: MaxCrawlDelay %v is negative", c.MaxCrawlDelay)
	}
	if c.MaxAdaptive < 0 {
		return fmt.Errorf("frontier config: MaxAdaptive %v is negative", c.MaxAdaptive)
	}
	return nil
}
