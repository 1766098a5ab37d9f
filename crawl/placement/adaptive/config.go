package adaptive

import (
	"fmt"
	"net/netip"
)

// Config is what a strategy obeys. The zero value of a field means its default.
type Config struct {
	// Seed of all that is drawn.
	Seed uint64
	// Budget is how many probes a site may cost in the mean in the end, those that explore among
	// them: 1.2. More make the choice surer.
	Budget float64
	// BlindBudget is the same for sites whose address is not known: 1.6, since there a first probe
	// has to say what the address would have.
	BlindBudget float64
	// Training is by how much earlier sites may cost more: with c candidates the n-th one this many
	// times the root of c/n probes. So what is spent on learning grows with the root of what was
	// placed, and nobody need know beforehand how much that will be: 3.
	Training float64
	// Memories bounds the sites remembered: 1536. Time grows with it; with 12 candidates these take
	// about half a millisecond a probe.
	Memories int
	// Peers bounds the candidates remembered: 256. A memory takes 8 bytes for each.
	Peers int
	// Atlas says to which network, organisation and country an address belongs; nil if nobody
	// knows.
	Atlas Atlas
}

// Facts are what registries say of an address; what is not known is zero.
type Facts struct {
	Network netip.Prefix // the smallest registered range around it
	Org     string       // handle of the organisation that registered it
	Country string       // two letters
}

// Atlas knows facts of addresses. It answers at once.
type Atlas interface {
	Facts(addr netip.Addr) Facts // returns the zero Facts for an unknown address
}

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	switch {
	case !(c.Budget >= 0):
		return fmt.Errorf("budget: %v probes a site", c.Budget)
	case !(c.BlindBudget >= 0):
		return fmt.Errorf("blind budget: %v probes a site", c.BlindBudget)
	case !(c.Training >= 0):
		return fmt.Errorf("training: %v probes", c.Training)
	case c.Memories < 0:
		return fmt.Errorf("memories: %d sites", c.Memories)
	case c.Peers < 0:
		return fmt.Errorf("peers: %d", c.Peers)
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
