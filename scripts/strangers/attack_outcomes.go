package main

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackOutcomes reports that the pages of all hosts are gone, which nobody asked it to fetch, and
// asks for the hosts. If it is believed, pages are missing in the end.
var attackOutcomes = attack{
	name: "outcomes", does: "outcomes of pages that nobody fetched, and wishes for hosts that were not offered",
	make: func(ctx context.Context, t *target) error { return lieOfPages(ctx, t, func(*stranger) {}) },
}

// attackAttached does the same as a worker at home, which is attached to the peer: whoever asks is.
var attackAttached = attack{
	name: "attached", does: "the same by workers that are attached to the peer",
	make: func(ctx context.Context, t *target) error {
		return lieOfPages(ctx, t, func(s *stranger) {
			worker := dht.NewPeer(s.Self(), nil)
			worker.Role = dht.RoleWorker
			within, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			_, _ = p2p.NewRingTransport(s.Net).Call(within, dht.NewPeer(s.of, nil), dhtwire.New(&dhtwire.Message_AttachRequest{
				AttachRequest: &dhtwire.AttachRequest{Sender: worker.Wire()},
			}))
		})
	},
}

// lieOfPages reports again and again that all pages are gone; before each round a stranger does
// what before says.
func lieOfPages(ctx context.Context, t *target, before func(s *stranger)) error {
	id, err := job.ParseID(t.job)
	if err != nil {
		return err
	}
	lies := make(map[string][]*wire.Fetched) // by host
	for _, url := range webgen.New(webConfig(t.pages)).Truth(webgen.Walk{Port: t.port, MaxDepth: -1}).URLs {
		host := link.Host(url)
		lies[host] = append(lies[host], &wire.Fetched{
			Job: id[:], Url: []byte(url), Outcome: uint32(link.OutcomeHTTPError), Status: 410, FetchedMs: time.Now().UnixMilli(), Size: 1,
		})
	}
	return t.crowd(ctx, identities, func(s *stranger) {
		for ctx.Err() == nil {
			before(s)
			for host, list := range lies {
				_ = lie(ctx, s, host, list)
			}
			_ = harness.Sleep(ctx, 10*time.Millisecond)
		}
	})
}

func lie(ctx context.Context, s *stranger, host string, list []*wire.Fetched) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := hosts.SessionMethod.Call(ctx, s, s.of, &wire.Session{
		Incarnation: 1, Seq: 1, Capacity: 1000,
		Hosts: []*wire.HostWork{{Host: host, Want: 64, Fetched: list, Addrs: [][]byte{{127, 0, 0, 1}}}},
	})
	return err
}
