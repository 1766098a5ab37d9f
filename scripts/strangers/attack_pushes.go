package main

import (
	"context"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// attackPushes holds as many streams as may be on which a peer is told who one is, and says
// nothing: libp2p answers nobody's question of that kind beside them.
var attackPushes = attack{
	name: "pushes", does: "streams on which to say who one is are opened, and nothing is said", slow: true,
	make: func(ctx context.Context, t *target) error {
		return t.crowd(ctx, identities, func(s *stranger) {
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() {
					for ctx.Err() == nil {
						st, err := s.open(ctx, "/ipfs/id/push/1.0.0")
						if err != nil {
							_ = harness.Sleep(ctx, 20*time.Millisecond)
							continue
						}
						stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
						_, _ = st.Read(make([]byte, 1))
						stop()
						_ = st.Reset()
					}
				})
			}
			group.Wait()
		})
	},
}
