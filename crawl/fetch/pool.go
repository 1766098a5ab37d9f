package fetch

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// pool holds idle connections and admits one exchange at a time per host.
type pool struct {
	maxIdle int

	mu     sync.Mutex // guards the rest; connections are closed without it
	hosts  map[string]*hostConns
	idle   list.List // of *conn, the one idle longest at the back
	sweep  *time.Timer
	closed bool
}

// hostConns are the slots and the idle connections of one key. It is removed when it has neither.
type hostConns struct {
	busy    bool
	waiting []chan struct{} // closed when a slot is passed on
	idle    []*conn         // most recently used last
}

// take waits for a slot of key's host and returns an idle connection, or nil if there is none.
// Every successful take is followed by one give.
func (p *pool) take(ctx context.Context, key string) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	h := p.hosts[key]
	if h == nil {
		h = &hostConns{}
		p.hosts[strings.Clone(key)] = h // the key is a substring of a URL, which must not be retained
	}
	if h.busy {
		turn := make(chan struct{})
		h.waiting = append(h.waiting, turn)
		p.mu.Unlock()
		if err := p.wait(ctx, key, h, turn); err != nil {
			return nil, err
		}
		p.mu.Lock()
	} else {
		h.busy = true
	}
	c := p.pop(h)
	var closing []*conn
	for c != nil && c.meter.outgrown() {
		closing = append(closing, c)
		c = p.pop(h)
	}
	p.mu.Unlock()
	closeAll(closing)
	return c, nil
}

// wait waits for a slot. If ctx ends when the slot was just received, the slot is passed on.
func (p *pool) wait(ctx context.Context, key string, h *hostConns, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(h.waiting, turn)
	if at >= 0 {
		h.waiting = slices.Delete(h.waiting, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 {
		p.give(key, nil)
	}
	return context.Cause(ctx)
}

// pop removes and returns the most recently used idle connection. The caller holds p.mu.
func (p *pool) pop(h *hostConns) *conn {
	n := len(h.idle)
	if n == 0 {
		return nil
	}
	c := h.idle[n-1]
	h.idle[n-1] = nil
	h.idle = h.idle[:n-1]
	p.idle.Remove(c.place)
	return c
}

// give releases a slot. The connection, if not nil, is kept for the next exchange.
func (p *pool) give(key string, c *conn) {
	if c != nil {
		c.meter.rest()
	}
	var closing []*conn
	p.mu.Lock()
	h := p.hosts[key]
	if len(h.waiting) > 0 {
		close(h.waiting[0])
		h.waiting = slices.Delete(h.waiting, 0, 1)
	} else {
		h.busy = false
	}
	switch {
	case c == nil:
	case p.closed:
		closing = append(closing, c)
	default:
		c.idleSince = time.Now()
		c.place = p.idle.PushFront(c)
		h.idle = append(h.idle, c)
		for p.idle.Len() > p.maxIdle {
			closing = append(closing, p.evict())
		}
		if p.sweep == nil {
			p.sweep = time.AfterFunc(idleTimeout, p.expire)
		}
	}
	p.forget(key, h)
	p.mu.Unlock()
	closeAll(closing)
}

// forget removes the host's entry if it is empty. The caller holds p.mu.
func (p *pool) forget(key string, h *hostConns) {
	if !h.busy && len(h.waiting) == 0 && len(h.idle) == 0 {
		delete(p.hosts, key)
	}
}

// evict removes and returns the connection idle longest. The caller holds p.mu.
func (p *pool) evict() *conn {
	c := p.idle.Remove(p.idle.Back()).(*conn)
	h := p.hosts[c.key]
	at := slices.Index(h.idle, c)
	h.idle = slices.Delete(h.idle, at, at+1)
	p.forget(c.key, h)
	return c
}

// expire closes connections that have been idle for too long, and reschedules itself.
func (p *pool) expire() {
	var closing []*conn
	p.mu.Lock()
	now := time.Now()
	p.sweep = nil
	for p.idle.Len() > 0 {
		left := idleTimeout - now.Sub(p.idle.Back().Value.(*conn).idleSince)
		if left > 0 {
			p.sweep = time.AfterFunc(left, p.expire)
			break
		}
		closing = append(closing, p.evict())
	}
	p.mu.Unlock()
	closeAll(closing)
}

// close closes idle connections, and those returned from then on.
func (p *pool) close() {
	var closing []*conn
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	for p.idle.Len() > 0 {
		closing = append(closing, p.evict())
	}
	p.mu.Unlock()
	closeAll(closing)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}
