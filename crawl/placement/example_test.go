package placement_test

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/placement"
)

// Idle is a strategy that measures nothing: the candidate with the most room in hand takes the
// host.
type Idle struct{}

// Next implements placement.Strategy.
func (Idle) Next(v *placement.View) placement.Choice {
	room := func(c placement.Candidate) int { return int(c.Capacity) - int(c.Backlog) }
	best := v.Candidates[0]
	for _, c := range v.Candidates[1:] {
		if room(c) > room(best) {
			best = c
		}
	}
	return placement.Choice{Worker: best.Peer, Why: "it has the most room"}
}

// A strategy is one method. CONTRIBUTING.md says where its name goes.
func ExampleStrategy() {
	v := &placement.View{Host: "a.example", Candidates: []placement.Candidate{
		{Peer: "owner", Self: true, Capacity: 100, Backlog: 90},
		{Peer: "neighbour", Capacity: 100, Backlog: 20},
	}}
	fmt.Println(Idle{}.Next(v).Worker)
	// Output: neighbour
}
