package adaptive

import (
	"fmt"
	"net/netip"
)

// Config is the configuration of a strategy. The zero value of a field selects its default.
type Config struct {
	// Seed of all random draws.
	Seed uint64
	// Budget is the long-term mean of probes per site, exploration included: 1.2. A higher one
	// improves the choice.
	Budget float64
	// BlindBudget is the same for sites without a known address: 1.6, since a first probe has to
	// replace the information in the address.
	BlindBudget float64
	// Training is the additional cost of earlier sites: with c candidates the n-th one may cost this
	// times the root of c/n more probes. So the cost of learning grows with the root of the number of
	// sites, which need not be known in advance: 3.
	Training float64
	// Memories bounds the stored sites: 1536. Time grows with it; with 12 candidates these take about
	// half a millisecond a probe.
	Memories int
	// Peers bounds the stored candidates: 256. A memory takes 8 bytes for each.
	Peers int
	// Atlas looks up the network, organization and country of an address; may be nil.
	Atlas Atlas
}

// Facts are the registry data of an address; unknown fields are zero.
type Facts struct {
	Network netip.Prefix // the smallest registered range that contains it
	Org     string       // handle of the organization that registered it
	Country string       // two letters
}

// Atlas looks up facts of addresses. It does not block.
type Atlas interface {
	Facts(addr netip.Addr) Facts // returns the zero Facts for an unknown address
}

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	switch {
	case !(c.Budget >= 0):
		return fmt.Errorf("budget %v: must not be negative", c.Budget)
	case !(c.BlindBudget >= 0):
		return fmt.Errorf("blind budget %v: must not be negative", c.BlindBudget)
	case !(c.Training >= 0):
		return fmt.Errorf("training %v: must not be negative", c.Training)
	case c.Memories < 0:
		return fmt.Errorf("memories %d: must not be negative", c.Memories)
	case c.Peers < 0:
		return fmt.Errorf("peers %d: must not be negative", c.Peers)
	}
	return nil
}

func (c *Config) fill() {
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Budget, 1.2)
	def(&c.BlindBudget, 1.6)
	def(&c.Training, 3.0)
	if c.Memories == 0 {
		c.Memories = 1536
	}
	if c.Peers == 0 {
		c.Peers = 256
	}
}
