package politeness

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// optOutsListed is the maximum number of opt-outs of each kind in a list.
const optOutsListed = 500

// OptOutCommands implements the opt-out part of control.Backend.
type OptOutCommands struct{ deps OptOutCommandsDeps }

// NewOptOutCommands returns the commands.
func NewOptOutCommands(deps OptOutCommandsDeps) *OptOutCommands { return &OptOutCommands{deps} }

// OptOutCommandsDeps are the dependencies of those commands.
type OptOutCommandsDeps struct {
	Ready func(ctx context.Context) error // returns when the peer serves
	// Announce stores a site's opt-out in the ring.
	Announce func(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error)
	Lists    *Lists // this peer's own
	// Locate resolves the addresses of a site, unless they are opted out.
	Locate func(ctx context.Context, host, scheme string) ([]netip.AddrPort, error)
	// Host returns the owner's state of a host.
	Host    func(ctx context.Context, host string) (*control.Host, error)
	Domains func(ctx context.Context, most int) ([]string, error) // the opted-out domains that this peer stores
	// Look queries the local owner of hosts.
	Look func(ctx context.Context, question func(*owner.Owner)) error
}

// SetOptOut implements control.Backend.
func (c *OptOutCommands) SetOptOut(ctx context.Context, subject, action string) (*control.OptOut, error) {
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
	changed, err := c.deps.Announce(ctx, s, a)
	if rpc.Refused(err) {
		return nil, control.Refused(err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &control.OptOut{Subject: s.String(), Action: string(a), Changed: changed}, nil
}

// OptOutCheck implements control.Backend.
func (c *OptOutCommands) OptOutCheck(ctx context.Context, raw string) (*control.OptOutCheck, error) {
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
	slices.Sort(check.Reasons)
	check.Reasons = slices.Compact(check.Reasons) // a list may be the owner's reason as well
	check.OptedOut = len(check.Reasons) > 0
	host := optout.Subject{Kind: optout.KindHost, Name: check.Host}
	check.Token, check.WithdrawToken, check.WellKnown = optout.Token(host, optout.Out), optout.Token(host, optout.Back), optout.WellKnown
	return check, nil
}

// OptOuts implements control.Backend.
func (c *OptOutCommands) OptOuts(ctx context.Context) (*control.OptOuts, error) {
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
