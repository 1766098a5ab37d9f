package main

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apoidea/apoidea/scripts/harness"
)

// attackDripped sends half of a frame of four megabytes, and of the rest a little now and then:
// what comes takes all room for large requests of those who are no neighbours.
var attackDripped = attack{
	name: "dripped", does: "long requests of which half comes at once, and the rest drips", slow: true,
	make: func(ctx context.Context, t *target) error {
		return t.crowd(ctx, identities, func(s *stranger) {
			s.streams(ctx, 1, serviceID("owner"), func(st network.Stream) {
				if _, err := st.Write(append(request(1, nil, 4<<20-64), make([]byte, 2<<20+4<<10)...)); err != nil {
					return
				}
				for ctx.Err() == nil {
					if _, err := st.Write(make([]byte, 16<<10)); err != nil {
						return
					}
					_ = harness.Sleep(ctx, 5*time.Second)
				}
			})
		})
	},
	judge: func(ctx context.Context, s *scene, r *report) error {
		_ = harness.Sleep(ctx, 2*time.Second) // until they are there
		return attackAnnounced.judge(ctx, s, r)
	},
}
