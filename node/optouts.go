package node

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/manners"
	"github.com/apoidea/apoidea/node/rpc"
)

// optOutsListed bounds how many of each kind a list of opt-outs has.
const optOutsListed = 500

// openOptOuts reads this peer's lists. The fetcher goes by them, and is not there yet.
func (n *Node) openOptOuts() (err error) {
	get := func(ctx context.Context, req *fetch.Request) (*fetch.Response, error) {
		return n.crawl.Fetcher.Get(ctx, req)
	}
	dns := n.cfg.DNSServer
	if dns != "" {
		dns = withPort(dns)
	}
	n.optOuts, err = manners.NewLists(manners.ListsDeps{File: n.cfg.OptOutFile, URL: n.cfg.OptOutURL, Dir: n.cfg.DataDir, Get: get, Log: n.log})
	if err != nil {
		return err
	}
	n.wishes = manners.NewOptOuts(manners.OptOutsDeps{
		Lists: n.optOuts, Prover: manners.NewProver(get, dns), Demand: n.cfg.OptOutProof, Owners: n.router,
		Changed: func() { n.owners.OptOutsChanged() }, // the owners come later
		Spawn:   n.spawn,
		Contact: n.cfg.Contact, Log: n.log,
	})
	return nil
}

// SetOptOut implements control.Backend.
func (n *Node) SetOptOut(ctx context.Context, subject, action string) (*control.OptOut, error) {
	s, err := optout.ParseSubject(subject)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	a, err := optout.ParseAction(action)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	if err := n.Ready(ctx); err != nil {
		return nil, err
	}
	changed, err := n.wishes.Tell(ctx, s, a)
	if rpc.Refused(err) {
		return nil, control.Refused(err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &control.OptOut{Subject: s.String(), Action: string(a), Changed: changed}, nil
}

// OptOutCheck implements control.Backend.
func (n *Node) OptOutCheck(ctx context.Context, raw string) (*control.OptOutCheck, error) {
	canonical, err := link.Canonical(link.WithScheme(raw))
	if err != nil {
		return nil, control.Usage(fmt.Sprintf("%q: %v", raw, err))
	}
	c := &control.OptOutCheck{URL: canonical, Host: link.Host(canonical)}
	if why := n.optOuts.URL(canonical); why != "" {
		c.Reasons = append(c.Reasons, why)
	}
	addrs, err := n.crawl.Fetcher.Locate(ctx, c.Host, strings.SplitN(canonical, ":", 2)[0])
	if err != nil && strings.Contains(err.Error(), "opted out") {
		c.Reasons = append(c.Reasons, err.Error())
	}
	for _, a := range addrs {
		c.Addrs = append(c.Addrs, a.Addr().String())
	}
	h, err := n.Host(ctx, c.Host)
	if err != nil {
		return nil, err
	}
	if h.OptedOut != "" {
		c.Reasons = append(c.Reasons, h.OptedOut)
	}
	c.OptedOut = len(c.Reasons) > 0
	host := optout.Subject{Kind: optout.KindHost, Name: c.Host}
	c.Token, c.WithdrawToken, c.WellKnown = optout.Token(host, optout.Out), optout.Token(host, optout.Back), optout.WellKnown
	return c, nil
}

// OptOuts implements control.Backend.
func (n *Node) OptOuts(ctx context.Context) (*control.OptOuts, error) {
	out := &control.OptOuts{Lists: []control.OptOutList{}, Hosts: []string{}}
	for _, s := range n.optOuts.Sources() {
		if s.Where == "" {
			continue
		}
		rules := s.List.Rules()
		l := control.OptOutList{From: s.Where, Rules: len(rules)}
		for _, r := range rules[:min(len(rules), optOutsListed)] {
			l.First = append(l.First, r.String())
		}
		out.Lists = append(out.Lists, l)
	}
	var err error
	if out.Domains, err = n.domains.OptedOut(ctx, optOutsListed); err != nil {
		return nil, err
	}
	if err := n.owners.Look(ctx, func(o *owner.Owner) { out.Hosts = append(out.Hosts, o.OptedOut(optOutsListed)...) }); err != nil {
		return nil, err
	}
	return out, nil
}

// listenForOptOuts opens the address of the form, if there is to be one.
func (n *Node) listenForOptOuts(ctx context.Context) (err error) {
	if n.cfg.OptOutListen == "" {
		return nil
	}
	if n.form, err = (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.OptOutListen); err != nil {
		return fmt.Errorf("optout-listen: %w", err)
	}
	return nil
}
