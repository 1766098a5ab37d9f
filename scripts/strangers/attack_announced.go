package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackAnnounced announces frames of four megabytes and sends nothing of them, so that those of
// others might find no room.
var attackAnnounced = attack{
	name: "announced", does: "frames of four megabytes are announced, and never come",
	make: func(ctx context.Context, t *target) error {
		return t.crowd(ctx, identities, func(s *stranger) {
			done := make(chan struct{})
			services := []string{"owner", "records", "replica", "content", "permit", "jobs"}
			for _, service := range services {
				go func() {
					defer func() { done <- struct{}{} }()
					s.streams(ctx, 2, serviceID(service), func(st network.Stream) {
						if _, err := st.Write(request(1, nil, 4<<20-64)); err == nil {
							_ = readFrame(st)
							_, _ = st.Read(make([]byte, 1)) // until the peer has had enough
						}
					})
				}()
			}
			for range services {
				<-done
			}
		})
	},
	judge: func(ctx context.Context, s *scene, r *report) error {
		begun := time.Now()
		large := make([]byte, 128<<10) // is refused as what it is not, and only if it is read
		for {
			within, cancel := context.WithTimeout(ctx, callTime)
			_, err := s.honest.net.Call(within, s.honest.of, politeness.ServicePermits, large)
			cancel()
			if calls.CodeOf(err) == calls.CodeRefused {
				r.Say("a large request was read after %.1f s", time.Since(begun).Seconds())
				return nil
			}
			if time.Since(begun) > joinTime || ctx.Err() != nil {
				return fmt.Errorf("no large request of an honest peer is read: %w", errors.Join(err, ctx.Err()))
			}
			_ = harness.Sleep(ctx, 100*time.Millisecond)
		}
	},
}
