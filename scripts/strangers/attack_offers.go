package main

import (
	"context"
	"time"

	libpeer "github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackOffers passes for the owner of the hosts that the ring crawls: it offers them to the peer,
// and grants it all their pages. If it is believed, two workers ask a host at once.
var attackOffers = attack{
	name: "offers", does: "hosts that others crawl are offered, and their pages granted",
	make: func(ctx context.Context, t *target) error {
		id, err := job.ParseID(t.job)
		if err != nil {
			return err
		}
		pages := make(map[string][][]byte) // by host
		for _, url := range webgen.New(webgen.Config{Hosts: webHosts, PagesPerHost: 300}).Truth(webgen.Walk{Port: t.port, MaxDepth: -1}).URLs {
			pages[link.Host(url)] = append(pages[link.Host(url)], []byte(url))
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			s.Handle(rpc.ServiceOwner, func(_ context.Context, _ libpeer.ID, raw []byte) ([]byte, error) {
				m := new(wire.Session)
				if len(raw) > 0 {
					_ = proto.Unmarshal(raw[1:], m) // behind the tag
				}
				reply := &wire.SessionReply{TtlMs: 60_000}
				for _, w := range m.GetHosts() {
					urls := pages[w.GetHost()]
					if n := min(len(urls), 32); w.GetWant() > 0 && n > 0 {
						pages := urls[len(urls)-n:]
						reply.Grants = append(reply.Grants, &wire.Grant{
							Host: w.GetHost(), Epoch: &wire.Epoch{Counter: 1 << 40, Peer: []byte(s.Self())}, JobIds: [][]byte{id[:]}, Url: pages,
							Job: make([]uint32, n), Hops: make([]byte, n), Kind: make([]byte, n),
						})
					}
				}
				return proto.Marshal(reply)
			})
			offer := &wire.Offer{}
			for host := range pages {
				offer.Hosts = append(offer.Hosts, host)
			}
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, callTime)
				_, _ = hosts.OfferMethod.Call(within, s, s.of, offer)
				cancel()
				_ = harness.Sleep(ctx, 100*time.Millisecond)
			}
		})
	},
}
