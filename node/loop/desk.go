package loop

import (
	"context"
	"sync"
	"time"
)

// maxRest is the maximum pause after one turn of a Desk.
const maxRest = time.Second

// Desk serializes callers, and pauses after each for as long as it took: together they use at most
// half a CPU, whatever their number. The zero value is ready for use. It is safe for concurrent
// use.
type Desk struct {
	once sync.Once
	free chan struct{} // holds a token while idle
}

// Turn returns when it is the caller's turn, which done ends, or with the error of ctx. With one
// waiting request per stream (calls.Endpoint.Long) peers take turns.
func (d *Desk) Turn(ctx context.Context) (done func(), err error) {
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
	return func() {
		time.AfterFunc(min(time.Since(begun), maxRest), func() { d.free <- struct{}{} }) // never blocks: capacity 1
	}, nil
}
