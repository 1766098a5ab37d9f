package main

import (
	"context"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// attackIdle opens as many streams as a peer may have: some of them name no protocol, the others
// name one and ask nothing.
var attackIdle = attack{
	name: "idle", does: "streams are opened that ask nothing, or name no protocol",
	make: func(ctx context.Context, t *target) error {
		return t.crowd(ctx, 2*identities, func(s *stranger) {
			var group sync.WaitGroup
			for i := range 96 {
				group.Go(func() {
					for ctx.Err() == nil {
						if i%2 == 0 {
							s.nameless(ctx)
						} else if st, err := s.open(ctx, serviceID("owner")); err == nil {
							_, _ = st.Write([]byte{0x80}) // the first of a length
							_, _ = st.Read(make([]byte, 1))
							_ = st.Reset()
						}
						_ = harness.Sleep(ctx, 50*time.Millisecond)
					}
				})
			}
			group.Wait()
		})
	},
}

// nameless opens a stream of the connection itself, on which no protocol is named.
func (s *stranger) nameless(ctx context.Context) {
	for _, c := range s.Host().Network().ConnsToPeer(s.of) {
		if st, err := c.NewStream(ctx); err == nil {
			_, _ = st.Write([]byte{19}) // the first byte of the name of multistream
			_, _ = st.Read(make([]byte, 64))
			_, _ = st.Read(make([]byte, 64))
			_ = st.Reset()
			return
		}
	}
}
