package node

import (
	"context"
	"fmt"
	"net"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/services/politeness"
)

// openOptOuts reads this peer's lists. The fetcher uses them, and is created later.
func (n *Node) openOptOuts() (err error) {
	get := func(ctx context.Context, req *fetch.Request) (*fetch.Response, error) {
		return n.crawl.Fetcher.Get(ctx, req)
	}
	dns := n.cfg.DNSServer
	if dns != "" {
		dns = withPort(dns)
	}
	n.optOuts, err = politeness.NewLists(politeness.ListsDeps{File: n.cfg.OptOutFile, URL: n.cfg.OptOutURL, Dir: n.cfg.DataDir, Get: get, Log: n.log})
	if err != nil {
		return err
	}
	n.wishes = politeness.NewOptOuts(politeness.OptOutsDeps{
		Lists: n.optOuts, Prover: politeness.NewProver(get, dns), Demand: n.cfg.OptOutProof, Owners: n.router,
		Changed: func() { n.owners.OptOutsChanged() }, // owners are set later
		Spawn:   n.spawn,
		Signal: func(ctx context.Context, m *wire.Again) error {
			_, err := n.owners.Again(ctx, m)
			return err
		},
		Contact: n.cfg.Contact, Log: n.log,
	})
	return nil
}

// listenForOptOuts opens the address of the form; nil without one.
func listenForOptOuts(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	form, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("optout-listen: %w", err)
	}
	return form, nil
}
