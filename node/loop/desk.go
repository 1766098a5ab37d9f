package loop

import (
	"context"
	"sync"
	"time"
)

// maxRest bounds the rest after one turn of a Desk.
const maxRest = time.Second

// Desk lets those who ask have their turns one after another, and rests after each for as long as
// it took: together they have at most half a processor, however many they are. The zero value is
// one with nobody before it. Safe for concurrent use.
type Desk struct {
	once sync.Once
	free chan struct{} // holds one while nobody is served
}

// Turn returns when it is the caller's turn, which done ends, or with the error of ctx. Who has one
// request waiting on each stream (calls.Endpoint.Long) has the turns go round.
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
		time.AfterFunc(min(time.Since(begun), maxRest), func() { d.free <- struct{}{} }) // never waits: it holds one at most
	}, nil
}
