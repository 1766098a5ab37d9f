package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/network"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackUnread posts a job of megabytes, asks for the list of jobs many times over, and does not
// read it.
var attackUnread = attack{
	name: "unread", does: "lists of jobs of megabytes are asked for, and not read", slow: true,
	make: func(ctx context.Context, t *target) error {
		first, err := t.newStranger(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = first.Close() }()
		for range 2 {
			if err := first.postLarge(ctx); err != nil {
				return err
			}
		}
		raw, err := proto.Marshal(&wire.JobRequest{List: true})
		if err != nil {
			return err
		}
		var many []byte
		for id := range uint64(64) {
			many = append(many, request(id+1, raw, 0)...)
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			s.streams(ctx, 2, serviceID("job"), func(st network.Stream) {
				if _, err := st.Write(many); err == nil {
					<-ctx.Done()
				}
			})
		})
	},
}

// postLarge posts a job with a megabyte of seeds, which is over at once.
func (s *stranger) postLarge(ctx context.Context) error {
	for range 100 { // most IDs are those of another peer
		id := job.NewID()
		spec := &wire.JobSpec{Id: id[:]}
		for i := range 950 {
			spec.Seeds = append(spec.Seeds, fmt.Appendf(nil, "http://made-up-%d.example/%s", i, strings.Repeat("x", 1050)))
		}
		within, cancel := context.WithTimeout(ctx, callTime)
		_, err := jobRequests.Call(within, s, s.of, &wire.JobRequest{Id: id[:], Post: spec, State: uint32(job.StateCanceled), Version: 1})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := harness.Sleep(ctx, callEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("no job was taken")
}
