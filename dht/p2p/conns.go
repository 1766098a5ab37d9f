package p2p

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// conns decides which connections are kept, and notifies when the last to a peer is gone.
type conns struct {
	*ground

	mu           sync.Mutex // guards the fields below
	onDisconnect []func(peer.ID)
	protected    map[peer.ID]bool // true for a ring neighbor
}

// protectTag is our tag in the connection manager.
const protectTag = "leafset"

// Protect exempts the connections to ring neighbors and others (claimed neighbors, attached
// workers) from closing at the connection limit, and no earlier ones. Only neighbors have reserved
// limits, see [calls.Network]: any peer can become one of the others.
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

// neighbour reports whether Protect named a peer as a neighbor.
func (c *conns) neighbour(id peer.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protected[id]
}

// OnDisconnect registers f to be called when the last connection to a peer is gone. f must not
// block.
func (c *conns) OnDisconnect(f func(peer.ID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDisconnect = append(c.onDisconnect, f)
}

// disconnected calls the hooks, unless there is another connection or the Net is closed.
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
