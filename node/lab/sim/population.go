package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim"
)

const (
	// silent is the fraction of crashes that drop no connection, like a power loss.
	silent = 0.5
	// settleWithin is the timeout for a ring to become consistent.
	settleWithin = 3 * time.Minute
)

// population is a ring whose peers join and crash, with exponential sessions, in virtual time.
// Those that arrive keep the number of live peers constant.
type population struct {
	*dhtsim.Sim
	session  time.Duration // mean
	arrivals time.Duration // mean interval
	length   time.Duration // of churn, for the progress
	progress func(done, all time.Duration)

	alive      bool // churn is active
	born, died int
	crash      func(p *dhtsim.Node) // ends a peer
	err        error                // ends the run
}

// newPopulation returns a ring without peers. Sessions are given by their median.
func newPopulation(world *dhtsim.World, peers int, session time.Duration) *population {
	mean := float64(session) / math.Ln2
	p := &population{Sim: dhtsim.NewSim(*world), session: time.Duration(mean), arrivals: time.Duration(mean / float64(peers))}
	p.crash = p.kill
	return p
}

// kill ends a peer.
func (p *population) kill(n *dhtsim.Node) {
	p.KillAs(n, p.Rand.Float64() < silent)
	p.died++
}

// run advances time a second at a time, so that cancellation takes effect soon.
func (p *population) run(ctx context.Context, d time.Duration) error {
	for ; d > 0; d -= time.Second {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Run(min(d, time.Second))
		if p.err != nil {
			return p.err
		}
		if p.progress != nil {
			p.progress(p.Elapsed(), max(p.Elapsed(), p.length+2*time.Minute))
		}
	}
	return nil
}

// settle waits until the ring of a new population is consistent; an error if it timed out.
func (p *population) settle(ctx context.Context) error {
	for p.Settled() != nil {
		if p.Elapsed() > settleWithin {
			return fmt.Errorf("ring did not become consistent: %w", p.Settled())
		}
		if err := p.run(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// exponential draws a duration.
func (p *population) exponential(mean time.Duration) time.Duration {
	return time.Duration(p.Rand.ExpFloat64() * float64(mean))
}

// churn lets peers crash and arrive until alive is cleared.
func (p *population) churn() {
	p.alive = true
	for _, n := range slices.Clone(p.Living()) {
		p.live(n)
	}
	p.arrive()
}

// live schedules a peer's crash.
func (p *population) live(n *dhtsim.Node) {
	n.Host.After(p.exponential(p.session), func() {
		if p.alive && p.Size() > 1 {
			p.crash(n)
		}
	})
}

// arrive starts new peers at the rate of crashes.
func (p *population) arrive() {
	p.After(p.exponential(p.arrivals), func() {
		if p.alive {
			p.live(p.Join())
			p.born++
			p.arrive()
		}
	})
}
