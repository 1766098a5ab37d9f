package main

import (
	"context"
	"sync"
)

// attackStatus asks for the report of the peer without a pause.
var attackStatus = attack{
	name: "status", does: "several identities ask for status without a pause",
	make: func(ctx context.Context, t *target) error { return askAll(ctx, t, "status", "report") },
}

// askAll has several identities ask a service each of the questions over and over again, many at
// once.
func askAll(ctx context.Context, t *target, service string, questions ...string) error {
	const atOnce = 16
	return t.crowd(ctx, identities, func(s *stranger) {
		ask := make(chan string)
		var asking sync.WaitGroup
		for range atOnce {
			asking.Go(func() {
				for q := range ask {
					_, _ = s.Call(ctx, s.of, service, []byte(q))
				}
			})
		}
		defer asking.Wait()
		defer close(ask)
		for {
			for _, q := range questions {
				select {
				case ask <- q:
				case <-ctx.Done():
					return
				}
			}
		}
	})
}
