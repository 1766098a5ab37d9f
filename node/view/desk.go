package view

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
)

// maxDeskRest bounds the rest after one question of a stranger.
const maxDeskRest = time.Second

// desk answers the questions of strangers for lists and files one after another, and rests after
// each for as long as it took: together they have at most half a processor, however many identities
// they have. Neighbours on the ring do not wait. Safe for concurrent use.
type desk struct {
	once sync.Once
	free chan struct{} // holds one while nobody is served
}

// serve has a question answered when it is its turn. A stranger has one waiting on each stream
// (calls.Endpoint.Long), so that the turns go round.
func (d *desk) serve(ctx context.Context, neighbour bool, answer func() ([]byte, error)) ([]byte, error) {
	if neighbour {
		return answer()
	}
	d.once.Do(func() {
		d.free = make(chan struct{}, 1)
		d.free <- struct{}{}
	})
	select {
	case <-d.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	begun := time.Now()
	raw, err := answer()
	time.AfterFunc(min(time.Since(begun), maxDeskRest), func() { d.free <- struct{}{} }) // never waits: it holds one at most
	return raw, err
}

// neighbour says whether a peer stands beside this one on the ring, or is attached to it.
func (v *View) neighbour(id peer.ID) bool {
	is := func(p dht.Peer) bool { return p.ID == id }
	preds, succs := v.deps.Ring.DHT.Leaves()
	return id == v.deps.Self || slices.ContainsFunc(preds, is) || slices.ContainsFunc(succs, is) || slices.ContainsFunc(v.deps.Ring.DHT.Attached(), is)
}
