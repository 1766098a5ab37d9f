package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// optOutsListed is the maximum number of opt-outs of each kind in a list.
const optOutsListed = 500

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
		Contact: n.cfg.Contact, Log: n.log,
	})
	return nil
}

// askedOfOptOuts creates the opt-out commands, once there is a view.
func (n *Node) askedOfOptOuts() *optOutCommands {
	return &optOutCommands{optOutDeps{
		Ready: n.Ready, Tell: n.wishes.Announce, Lists: n.optOuts, Locate: n.crawl.Fetcher.Locate, Host: n.Host, Domains: n.domains.OptedOut, Look: n.owners.Look,
	}}
}

// optOutCommands implements the opt-out part of control.Backend.
type optOutCommands struct{ deps optOutDeps }

// optOutDeps are the dependencies of those commands.
type optOutDeps struct {
	Ready func(ctx context.Context) error // returns when the peer serves
	// Tell stores a site's opt-out in the ring.
	Tell  func(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error)
	Lists *politeness.Lists // this peer's own
	// Locate resolves the addresses of a site, unless they are opted out.
	Locate func(ctx context.Context, host, scheme string) ([]netip.AddrPort, error)
	// Host returns the owner's state of a host.
	Host    func(ctx context.Context, host string) (*control.Host, error)
	Domains func(ctx context.Context, most int) ([]string, error) // the opted-out domains that this peer stores
	Look    inspect.Question                                      // queries the local owner of hosts
}

// SetOptOut implements control.Backend.
func (c *optOutCommands) SetOptOut(ctx context.Context, subject, action string) (*control.OptOut, error) {
	s, err := optout.ParseSubject(subject)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	a, err := optout.ParseAction(action)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	if err := c.deps.Ready(ctx); err != nil {
		return nil, err
	}
	changed, err := c.deps.Tell(ctx, s, a)
	if rpc.Refused(err) {
		return nil, control.Refused(err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &control.OptOut{Subject: s.String(), Action: string(a), Changed: changed}, nil
}

// OptOutCheck implements control.Backend.
func (c *optOutCommands) OptOutCheck(ctx context.Context, raw string) (*control.OptOutCheck, error) {
	canonical, err := link.Canonical(link.WithScheme(raw))
	if err != nil {
		return nil, control.Usage(fmt.Sprintf("%q: %v", raw, err))
	}
	check := &control.OptOutCheck{URL: canonical, Host: link.Host(canonical)}
	if why := c.deps.Lists.URL(canonical); why != "" {
		check.Reasons = append(check.Reasons, why)
	}
	addrs, err := c.deps.Locate(ctx, check.Host, strings.SplitN(canonical, ":", 2)[0])
	if err != nil && strings.Contains(err.Error(), "opted out") {
		check.Reasons = append(check.Reasons, err.Error())
	}
	for _, a := range addrs {
		check.Addrs = append(check.Addrs, a.Addr().String())
	}
	h, err := c.deps.Host(ctx, check.Host)
	if err != nil {
		return nil, err
	}
	if h.OptedOut != "" {
		check.Reasons = append(check.Reasons, h.OptedOut)
	}
	check.OptedOut = len(check.Reasons) > 0
	host := optout.Subject{Kind: optout.KindHost, Name: check.Host}
	check.Token, check.WithdrawToken, check.WellKnown = optout.Token(host, optout.Out), optout.Token(host, optout.Back), optout.WellKnown
	return check, nil
}

// OptOuts implements control.Backend.
func (c *optOutCommands) OptOuts(ctx context.Context) (*control.OptOuts, error) {
	out := &control.OptOuts{Lists: []control.OptOutList{}, Hosts: []string{}}
	for _, s := range c.deps.Lists.Sources() {
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
	if out.Domains, err = c.deps.Domains(ctx, optOutsListed); err != nil {
		return nil, err
	}
	if err := c.deps.Look(ctx, func(o *owner.Owner) { out.Hosts = append(out.Hosts, o.OptedOut(optOutsListed)...) }); err != nil {
		return nil, err
	}
	return out, nil
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
