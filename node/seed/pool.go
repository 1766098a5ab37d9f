package seed

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// MostGiven is how many peers an answer names at most, as many as a newcomer asks (dht/p2p).
const MostGiven = 8

// Pool are the peers that may be given, by their network. It does not change, and so is safe for
// concurrent use.
type Pool struct {
	proven, spare []network
}

// network is a part of the internet with the peers in it that may be given, as multiaddrs with
// /p2p.
type network struct {
	name  string
	addrs []string
}

// Pool returns whom the book would give now.
func (b *Book) Pool(now time.Time) *Pool {
	var pool Pool
	at := map[Rank]map[string]int{Proven: {}, Spare: {}}
	for id, p := range b.peers {
		rank, _ := p.Rank(now)
		list := &pool.proven
		switch rank {
		case Out:
			continue
		case Spare:
			list = &pool.spare
		}
		i, known := at[rank][p.network]
		if !known {
			i = len(*list)
			at[rank][p.network] = i
			*list = append(*list, network{name: p.network})
		}
		(*list)[i].addrs = append((*list)[i].addrs, full(id, p.Address))
	}
	return &pool
}

// full is an address of a peer together with its name, as a newcomer needs it.
func full(id peer.ID, address string) string { return address + "/p2p/" + id.String() }

// Size is how many peers may be given, proven and others.
func (p *Pool) Size() (proven, spare int) {
	for _, n := range p.proven {
		proven += len(n.addrs)
	}
	for _, n := range p.spare {
		spare += len(n.addrs)
	}
	return proven, spare
}

// Draw draws up to n peers by the numbers that below(k) returns, from 0 to k-1, no two of one
// network: networks first, so that many peers in one are drawn no more often than a single one in
// another. New peers come only after all proven ones.
func (p *Pool) Draw(n int, below func(int) int) []string {
	var drawn []string
	used := make(map[string]bool, n)
	for _, list := range [][]network{p.proven, p.spare} {
		left := make(map[int]bool, n) // networks looked at: few, also where there are thousands
		for len(drawn) < n && len(left) < len(list) {
			i := below(len(list))
			if left[i] {
				continue
			}
			left[i] = true
			if at := list[i]; !used[at.name] {
				used[at.name] = true
				drawn = append(drawn, at.addrs[below(len(at.addrs))])
			}
		}
	}
	return drawn
}
