package visits

import (
	"math"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// News is the part of a message beside outcomes: states of robots.txt and addresses of hosts.
type News struct {
	m      *Machine
	robots []robotsNews
	addrs  []*host // whose addresses it contains
}

type robotsNews struct {
	origin *origin
	seq    uint64
	host   string
}

// News returns an empty News for a message that is about to be built.
func (m *Machine) News() *News { return &News{m: m} }

// Add adds the news of a host to a message, as a parameter of session.Machine.Turn.
func (n *News) Add(t *session.Turn, l *session.Lease) {
	h := n.m.hosts[l.Host]
	for _, o := range h.origins {
		if !o.untold {
			continue
		}
		work := t.Work(l)
		if len(work.GetRobots()) == wire.MaxOrigins {
			break
		}
		state, _ := o.state.MarshalBinary() // never fails
		work.Robots = append(work.Robots, &wire.Robots{Origin: o.name, State: state})
		t.Grow(len(o.name) + len(state))
		n.robots = append(n.robots, robotsNews{o, o.newsSeq, l.Host})
	}
	if h.fresh {
		work := t.Work(l)
		for _, addr := range h.addrs {
			work.Addrs = append(work.Addrs, addr.AsSlice())
		}
		work.ConnectUs = uint32(min(h.connect.Microseconds(), math.MaxUint32)) // not negative
		h.fresh = false
		n.addrs = append(n.addrs, h)
	}
}

// Stored marks the news as stored by the owner.
func (n *News) Stored(reply *wire.SessionReply) {
	kept := session.Kept(reply)
	for _, r := range n.robots {
		if !kept[r.host] && r.origin.newsSeq == r.seq {
			r.origin.untold = false
		}
	}
	for _, h := range n.addrs {
		h.fresh = h.fresh || kept[h.Host]
	}
}

// Undelivered marks the news as undelivered.
func (n *News) Undelivered() {
	for _, h := range n.addrs {
		h.fresh = true
	}
}
