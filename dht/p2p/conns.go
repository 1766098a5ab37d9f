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
	protected    map[peer.ID]bool
}

// protectTag names our protection in the connection manager.
const protectTag = "leafset"

// Protect keeps the connections to these peers, and to no others that an
// earlier Protect named, from being closed when there are too many.
func (c *conns) Protect(ids []peer.ID) {
	manager := c.host.ConnManager()
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.protected
	c.protected = make(map[peer.ID]bool, len(ids))
	for _, id := range ids {
		c.protected[id] = true
		if !old[id] {
			manager.Protect(id, protectTag)
		}
	}
	for id := range old {
		if !c.protected[id] {
			manager.Unprotect(id, protectTag)
		}
	}
}

// protects says whether Protect named a peer.
func (c *conns) protects(id peer.ID) bool {
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
