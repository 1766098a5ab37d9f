package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/net/netutil"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

const (
	// optOutPace is the time between two subjects of a list that are told to the ring, and two hosts of a domain.
	optOutPace = 20 * time.Millisecond
	// optOutTries is how often the owner of a host is tried to be told of its domain's wish, optOutPause the time between.
	optOutTries = 5
	optOutPause = 2 * time.Second
	// formConns bounds the connections to the form.
	formConns = 64
)

// prove checks that a site asks for something itself, where that is demanded. It is the one who keeps the wish that looks, whoever brought it.
func (n *Node) prove(ctx context.Context, s optout.Subject, a optout.Action) error {
	if !n.cfg.OptOutProof {
		return nil
	}
	return n.prover.check(ctx, s, a)
}

// takeOptOut takes the wish of a host that this peer owns; it returns when that is on the disks that count.
func (w *owners) takeOptOut(ctx context.Context, _ peer.ID, m *wire.OptOut) (*wire.OptOutReply, error) {
	s, a, err := wishOf(m)
	if err != nil {
		return nil, err
	}
	host := m.GetHost()
	canonical, err := link.Canonical("http://" + host + "/")
	if err != nil || link.Host(canonical) != host {
		return nil, rpc.Refuse("opt-out: host %.80q", host)
	}
	if s.Kind == optout.KindHost && s.Name != host || s.Kind == optout.KindDomain && !domain.Covers(s.Name, host) {
		return nil, rpc.Refuse("%s does not speak for %s", s, host)
	}
	if key := ring.HostKey(host); !w.serves(key) {
		return nil, w.router.Moved(key)
	}
	if err := w.prove(ctx, s, a); err != nil {
		return nil, rpc.Refuse("%v", err)
	}
	reply := &wire.OptOutReply{}
	if err := w.loop.do(ctx, func(o *owner.Owner) {
		reply.Changed = o.OptOut(host, a == optout.Out, s.String())
	}); err != nil {
		return nil, err
	}
	return reply, nil
}

// setOptOut tells the ring of a wish.
func (n *Node) setOptOut(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error) {
	if s.Kind == optout.KindDomain {
		return callOptOut(ctx, n.router, domain.Key(domain.Of(s.Name)), serviceDomains, s, a, "")
	}
	return callOptOut(ctx, n.router, ring.HostKey(s.Name), serviceOwner, s, a, s.Name)
}

// spreadOptOut tells the owners of a domain's hosts of its wish, beside everything else.
func (n *Node) spreadOptOut(s optout.Subject, a optout.Action, hosts []string) {
	n.owners.spawn(func(ctx context.Context) {
		for try := 0; len(hosts) > 0 && try < optOutTries; try++ {
			var left []string
			for _, host := range hosts {
				if loop.Sleep(ctx, optOutPace) != nil {
					return
				}
				call, cancel := context.WithTimeout(ctx, reportTimeout)
				_, err := callOptOut(call, n.router, ring.HostKey(host), serviceOwner, s, a, host)
				cancel()
				if err != nil && !rpc.Refused(err) {
					left = append(left, host)
				}
				if err != nil {
					n.log.Debug("owner not told of an opt-out", "host", host, "err", err)
				}
			}
			if hosts = left; len(hosts) > 0 && loop.Sleep(ctx, optOutPause) != nil {
				return
			}
		}
		if len(hosts) > 0 {
			n.log.Warn("owners not told of an opt-out", "subject", s.String(), "hosts", len(hosts))
		}
	})
}

// runOptOuts keeps the lists, and tells the ring of the hosts and domains on them as they come.
func (n *Node) runOptOuts(ctx context.Context) error {
	told := make(map[optout.Subject]bool)
	kick := make(chan struct{}, 1)
	kick <- struct{}{}
	n.optOuts.changed = func() {
		n.owners.spawn(func(context.Context) { n.owners.loop.post(func(o *owner.Owner) { o.OptOutsChanged() }) })
		loop.Wake(kick)
	}
	done := make(chan error, 1)
	go func() { done <- n.optOuts.run(ctx) }()
	for {
		select {
		case <-kick:
			n.tellOptOuts(ctx, told)
		case err := <-done:
			return err
		}
	}
}

// tellOptOuts tells the ring of what is on the lists and was not told yet. What is not taken, for want of a proof, holds at this peer alone.
func (n *Node) tellOptOuts(ctx context.Context, told map[optout.Subject]bool) {
	for _, s := range n.optOuts.subjects() {
		if told[s] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, reportTimeout)
		_, err := n.setOptOut(call, s, optout.Out)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || rpc.Refused(err):
			told[s] = true
		}
		if err != nil {
			n.log.Debug("the ring was not told of an opt-out", "subject", s.String(), "err", err)
		}
		if loop.Sleep(ctx, optOutPace) != nil {
			return
		}
	}
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
	changed, err := n.setOptOut(ctx, s, a)
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
	canonical, err := link.Canonical(withScheme(raw))
	if err != nil {
		return nil, control.Usage(fmt.Sprintf("%q: %v", raw, err))
	}
	c := &control.OptOutCheck{URL: canonical, Host: link.Host(canonical)}
	if why := n.optOuts.URL(canonical); why != "" {
		c.Reasons = append(c.Reasons, why)
	}
	addrs, err := n.crawl.fetcher.Locate(ctx, c.Host, strings.SplitN(canonical, ":", 2)[0])
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
	out := &control.OptOuts{Lists: []control.OptOutList{}, Domains: []string{}, Hosts: []string{}}
	for _, s := range n.optOuts.sources() {
		if s.where == "" {
			continue
		}
		rules := s.list.Rules()
		l := control.OptOutList{From: s.where, Rules: len(rules)}
		for _, r := range rules[:min(len(rules), pageSize)] {
			l.First = append(l.First, r.String())
		}
		out.Lists = append(out.Lists, l)
	}
	var err error
	if lerr := n.domains.loop.Do(ctx, func() {
		err = n.domains.state.OptOuts(func(o *domain.OptOut) bool {
			if o.On {
				out.Domains = append(out.Domains, o.Domain)
			}
			return len(out.Domains) < pageSize
		})
	}); lerr != nil {
		return nil, lerr
	}
	if err != nil {
		return nil, err
	}
	if err := n.owners.loop.look(ctx, func(o *owner.Owner) { out.Hosts = append(out.Hosts, o.OptedOut(pageSize)...) }); err != nil {
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

// optOutDesk does what the form asks for. The site is looked at here first, in the profile that asks for no proofs too: strangers come by the form.
type optOutDesk struct{ n *Node }

var _ optout.Desk = optOutDesk{}

// SetOptOut implements optout.Desk.
func (d optOutDesk) SetOptOut(ctx context.Context, s optout.Subject, a optout.Action) error {
	if err := d.n.prover.check(ctx, s, a); err != nil {
		return err
	}
	_, err := d.n.setOptOut(ctx, s, a)
	return err
}

// serveOptOuts serves the form until ctx ends.
func (n *Node) serveOptOuts(ctx context.Context) error {
	srv := &http.Server{
		Handler: optout.NewForm(optOutDesk{n}, n.cfg.Contact), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(netutil.LimitListener(n.form, formConns)) }()
	select {
	case err := <-served:
		return fmt.Errorf("form of opt-outs: %w", err)
	case <-ctx.Done():
	}
	err := srv.Close()
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
