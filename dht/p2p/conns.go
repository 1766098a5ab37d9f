package p2p

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// conns are the connections: which are kept, and who is told when the last to a peer is gone.
type conns struct {
	*ground

	mu           sync.Mutex // guards what follows
	onDisconnect []func(peer.ID)
	protected    map[peer.ID]bool // of a neighbour on the ring it is true
}

// protectTag names our protection in the connection manager.
const protectTag = "leafset"

// Protect keeps the connections to the neighbours on the ring, to those who say that they are, and
// to the workers attached to this peer, and to no others that an earlier Protect named, from being
// closed when there are too many. Neighbours alone do not share with strangers, see
// [calls.Network]: the others are whoever asks.
func (c *conns) Protect(neighbours, others []peer.ID) {
	manager := c.host.ConnManager()
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.protected
	c.protected = make(map[peer.ID]bool, len(neighbours)+len(others))
	for _, id := range others {
		c.protected[id] = false
	}
	for _, id := range neighbours {
		c.protected[id] = true
	}
	for id := range c.protected {
		if _, was := old[id]; !was {
			manager.Protect(id, protectTag)
		}
	}
	for id := range old {
		if _, is := c.protected[id]; !is {
			manager.Unprotect(id, protectTag)
		}
	}
}

// neighbour says whether Protect named a peer as a neighbour.
func (c *conns) neighbour(id peer.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protected[id]
}

// OnDisconnect registers f to be called when the last connection to a peer is
// gone. f must not block.
func (c *conns) OnDisconnect(f func(peer.ID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDisconnect = append(c.onDisconnect, f)
}

// disconnected tells the hooks, unless there is another connection or the Net is closed.
func (c *conns) disconnected(p peer.ID) {
	if c.Connected(p) || c.life.Err() != nil {
		return
	}
	c.mu.Lock()
	hooks := c.onDisconnect
	c.mu.Unlock()
	for _, f := range hooks {
		f(p)
	}
}
