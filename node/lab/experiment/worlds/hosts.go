package worlds

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// fewNodes is the number of nodes up to which a matrix stands for places, each with several sites.
const fewNodes = 200

// Hosts draws distinct crawlers and sites. The sites of a matrix are its other nodes in random
// order, at most as many as there are. With few nodes, or with crowded, each other node is the
// place of several sites.
func Hosts(net *internet.Internet, rnd *rand.Rand, peers, sites int, crowded bool) (p, s []int, err error) {
	size := net.Size()
	if size == 0 || peers+sites <= size {
		return net.Draw(rnd, peers, sites)
	}
	if size <= peers {
		return nil, nil, fmt.Errorf("%w: the matrix has %d nodes, want more than the %d crawlers", trial.ErrOptions, size, peers)
	}
	if p, s, err = net.Draw(rnd, peers, size-peers); err != nil {
		return nil, nil, err
	}
	if size >= fewNodes && !crowded {
		return p, s, nil
	}
	places := s
	for s = nil; len(s) < sites; {
		k := len(s)
		s = append(s, places[k%len(places)]+size*(1+k/len(places)))
	}
	rnd.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return p, s, nil
}

// Addresses maps hosts to addresses. Where several sites share a node of a matrix, each round of
// them has its own addresses out of the same prefixes.
type Addresses struct {
	o      *trial.Options
	rounds []*internet.Internet
}

// NewAddresses returns the addresses of the hosts of net.
func NewAddresses(o *trial.Options, net *internet.Internet) *Addresses {
	return &Addresses{o, []*internet.Internet{net}}
}

// Of returns the address of a host; invalid if the internet has none.
func (a *Addresses) Of(host int) (netip.Addr, error) {
	size, round := a.rounds[0].Size(), 0
	if size > 0 && a.o.Prefixes != "" {
		round = host / size
	}
	for len(a.rounds) <= round {
		seed := a.o.Seed ^ uint64(len(a.rounds))<<48
		net, err := internet.Load(internet.Options{Seed: seed, RTT: a.o.RTT, Prefixes: a.o.Prefixes, Fill: true})
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%w: %w", trial.ErrOptions, err)
		}
		a.rounds = append(a.rounds, net)
	}
	return a.rounds[round].Addr(host), nil
}
