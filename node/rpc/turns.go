package rpc

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// largeMemory is what a request may take unpacked, and still be handled at once: what one of 64 KiB
// may. A peer's larger ones take turns.
const largeMemory = 256 << 10

// turns lets each peer have one turn at a time. Who has to wait does so in a handler of its own
// stream, with a payload that counts as its own: it keeps nobody else out. Safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[peer.ID]*turn
}

// turn is a peer's: whoever has put something into taken has it. Its place is kept for those who
// wait, too.
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

// release ends a turn that was taken.
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
