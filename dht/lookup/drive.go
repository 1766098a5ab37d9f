package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

const (
	// DefaultCalls is the default maximum number of calls of one lookup.
	DefaultCalls = 16
	// DefaultTimeout is the default timeout of one call.
	DefaultTimeout = 2 * time.Second
)

// Call sends a request to a peer and blocks until there is an answer or an error.
type Call func(ctx context.Context, to member.Peer, req *wire.Message) (*wire.Message, error)

// ChoosePosition returns the index of the candidate that splits its present owner's arc best
// (design: balance of arcs). It needs no place in the ring: the searches begin at the entry peers,
// which are known members. Candidates without a found owner do not count; if no candidate has one,
// the index is 0 and the error has the causes.
func ChoosePosition(ctx context.Context, call Call, entries []member.Peer, candidates []ring.Key) (int, error) {
	arcs := make([]ring.Arc, len(candidates))
	errs := make([]error, len(candidates))
	var searching sync.WaitGroup
	for i, key := range candidates {
		searching.Go(func() {
			search := New("", key, entries, DefaultCalls)
			for _, p := range entries {
				search.Know(p)
			}
			Drive(ctx, call, search, DefaultTimeout)
			found, err := search.Found()
			// An arc that ends at the candidate has an empty half: the candidate is never chosen for it.
			arcs[i], errs[i] = ring.Arc{Start: key, End: key}, err
			if err == nil {
				arcs[i] = found.Arc
			}
		})
	}
	searching.Wait()
	for _, err := range errs {
		if err == nil {
			return ring.BestPosition(candidates, arcs), nil
		}
	}
	return 0, fmt.Errorf("choose position: %w", errors.Join(errs...))
}

// Drive makes the calls of a search until it is done or ctx ends; no call is in flight when it
// returns.
func Drive(ctx context.Context, call Call, search *Search, timeout time.Duration) {
	type answer struct {
		from member.Peer
		msg  *wire.Message
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	answers := make(chan answer, search.limit+Closer)
	for !search.Done() && ctx.Err() == nil {
		for {
			to, ok := search.Ask(time.Now())
			if !ok {
				break
			}
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				msg, err := call(ctx, to, search.Request())
				answers <- answer{to, msg, err}
			})
		}
		a := <-answers
		search.Answer(time.Now(), a.from, a.msg, a.err)
	}
}
