package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// TestAllJobsAreListed: what a member keeps is listed whole, also if it is more than one answer
// holds.
func TestAllJobsAreListed(t *testing.T) {
	const jobs = 10
	s := newJobs(t, nil)
	var seeds []string
	for i := range 1000 {
		seeds = append(seeds, fmt.Sprintf("http://a.example/%03d%s", i, strings.Repeat("x", 1000)))
	}
	for range jobs {
		spec := crawltest.Job(t, nil, seeds...)
		if _, err := s.answer(t.Context(), "poster", &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}); err != nil {
			t.Fatal(err)
		}
	}
	answers := 0
	p := NewPoster(PosterDeps{
		Registry: newBookOf(t, &jobWorld{}),
		Ring: func(context.Context) (*control.Ring, error) {
			return &control.Ring{Members: []control.Member{{Status: control.Status{Peer: "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"}}}}, nil
		},
		Net: rpc.CallerFunc(func(ctx context.Context, _ peer.ID, _ string, req []byte) ([]byte, error) {
			answer, err := s.Service().Handle(ctx, "asker", req)
			if answers++; len(answer) > calls.MaxPayload {
				t.Errorf("an answer of %d bytes cannot be sent", len(answer))
			}
			return answer, err
		}),
	})
	list, err := p.Jobs(t.Context())
	if err != nil || len(list) != jobs {
		t.Errorf("%d of %d jobs are listed, %v", len(list), jobs, err)
	}
	if answers > jobs {
		t.Errorf("%d answers", answers)
	}
}
