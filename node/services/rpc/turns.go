package rpc

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// largeMemory is the decoded size up to which a request is handled at once: that of one of 64 KiB.
// A peer's larger ones take turns.
const largeMemory = 256 << 10

// turns gives each peer one turn at a time. A waiting request blocks a handler of its own stream,
// and its payload counts for its peer, so it does not delay others. It is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[peer.ID]*turn
}

// turn is a peer's: the holder has put a token into taken. The entry stays while others wait.
type turn struct {
	taken chan struct{}
	users int
}

// take waits for the peer's turn, or until ctx ends.
func (t *turns) take(ctx context.Context, from peer.ID) error {
	t.mu.Lock()
	if t.of == nil {
		t.of = make(map[peer.ID]*turn)
	}
	own := t.of[from]
	if own == nil {
		own = &turn{taken: make(chan struct{}, 1)}
		t.of[from] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		t.leave(from, own)
		return ctx.Err()
	}
}

// release ends a turn.
func (t *turns) release(from peer.ID) {
	t.mu.Lock()
	own := t.of[from]
	t.mu.Unlock()
	<-own.taken
	t.leave(from, own)
}

func (t *turns) leave(from peer.ID, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.of, from)
	}
}
