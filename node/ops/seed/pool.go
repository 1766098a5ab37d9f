package seed

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// MostGiven is the maximum number of peers in a response, as many as a joining peer contacts
// (dht/p2p).
const MostGiven = 8

// Pool is the set of peers for responses, by network. It is immutable and safe for concurrent use.
type Pool struct {
	proven, spare []network
}

// network is an IP network with its peers, as multiaddrs with /p2p.
type network struct {
	name  string
	addrs []string
}

// Pool returns the peers for responses at now.
func (b *PeerSet) Pool(now time.Time) *Pool {
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

// full returns an address with the peer ID.
func full(id peer.ID, address string) string { return address + "/p2p/" + id.String() }

// Size returns the number of proven and of spare peers.
func (p *Pool) Size() (proven, spare int) {
	for _, n := range p.proven {
		proven += len(n.addrs)
	}
	for _, n := range p.spare {
		spare += len(n.addrs)
	}
	return proven, spare
}

// Draw draws up to n peers of different networks; below(k) returns a random number from 0 to k-1.
// It draws networks first, so that many peers in one network have no advantage. Spare peers follow
// after all proven ones.
func (p *Pool) Draw(n int, below func(int) int) []string {
	var drawn []string
	used := make(map[string]bool, n)
	for _, list := range [][]network{p.proven, p.spare} {
		left := make(map[int]bool, n) // networks drawn so far: few, even of thousands
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
