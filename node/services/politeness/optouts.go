package politeness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/net/netutil"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

const (
	// callTime bounds one call of another peer.
	callTime = 5 * time.Second
	// optOutPace is the time between two announced subjects of a list, and between two hosts of a
	// domain.
	optOutPace = 20 * time.Millisecond
	// optOutTries bounds the tries to notify the owner of a host of its domain's opt-out, and
	// optOutPause is the first delay between them, which doubles: an owner that has checked too many
	// sites is busy for a minute.
	optOutTries = 7
	optOutPause = time.Second
	// spreadsAtOnce bounds the concurrent notifications of domains' opt-outs, spreadRest is the time
	// for which a completed one is not repeated, and spreadsKept bounds those remembered.
	spreadsAtOnce = 64
	spreadRest    = time.Minute
	spreadsKept   = 1024
	// optOutAgain is the delay before rejected subjects of a list are announced again.
	optOutAgain = time.Minute
	// claimEvery is the interval of checks of opt-outs in records of other owners, which leaves two
	// thirds of proofsPerMinute to others; claimAgainSeconds is the time between two for a host.
	claimEvery        = 3 * time.Second
	claimAgainSeconds = 600
	// formConns bounds the connections to the form.
	formConns = 64
)

// OptOutsDeps are the dependencies of OptOuts.
type OptOutsDeps struct {
	Lists  *Lists  // this peer's own
	Prover *Prover // checks sites for proofs
	// Demand requires a proof of the site, regardless of the reporting peer.
	Demand bool
	Owners rpc.Owners // calls the owners of domains and hosts
	// Changed is called when a list of this peer has changed.
	Changed func()
	// Spawn runs fn asynchronously, until the peer ends.
	Spawn   func(fn func(ctx context.Context))
	Contact string // displayed on the form
	// Signal sends notices of changed pages to the owner of their host.
	Signal func(ctx context.Context, m *crawlwire.Again) error
	Log    *slog.Logger // reports failed notifications
}

// OptOuts announces opt-outs to the ring: those on this peer's lists, those of its form, and those
// that it forwards.
type OptOuts struct {
	deps OptOutsDeps

	mu        sync.Mutex // guards what follows
	spreads   map[optout.Subject]*spread
	spreading int // number of those in progress
}

// spread is the last opt-out of a domain sent to the owners of its hosts.
type spread struct {
	action optout.Action
	hosts  []string
	done   time.Time // end of the notification; zero while in progress
}

// NewOptOuts returns OptOuts, which are started by Run.
func NewOptOuts(d OptOutsDeps) *OptOuts {
	return &OptOuts{deps: d, spreads: make(map[optout.Subject]*spread)}
}

// Prover returns the prover of sites.
func (o *OptOuts) Prover() *Prover { return o.deps.Prover }

// Prove verifies the proof of a site, if proofs are required. The peer that stores the opt-out
// verifies it, regardless of the reporting peer.
func (o *OptOuts) Prove(ctx context.Context, s optout.Subject, a optout.Action) error {
	if !o.deps.Demand {
		return nil
	}
	return o.deps.Prover.Check(ctx, s, a)
}

// Announce announces an opt-out to the ring.
func (o *OptOuts) Announce(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error) {
	if s.Kind == optout.KindDomain {
		return o.announceTo(ctx, domain.Key(domain.Of(s.Name)), ServiceDomains, s, a, "")
	}
	return o.announceTo(ctx, ring.HostKey(s.Name), rpc.ServiceOwner, s, a, s.Name)
}

func (o *OptOuts) announceTo(ctx context.Context, key ring.Key, service string, s optout.Subject, a optout.Action, host string) (changed bool, err error) {
	reply, err := optOutMethod(service).CallOwner(ctx, o.deps.Owners, key, &wire.OptOut{Subject: s.String(), Action: string(a), Host: host})
	return reply.GetChanged(), err
}

// Spread notifies the owners of a domain's hosts of its opt-out asynchronously, after the previous
// one, unless an equal one is in progress or has just completed. It returns false if too many are
// in progress.
func (o *OptOuts) Spread(s optout.Subject, a optout.Action, hosts []string, changed bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.spreads[s]
	running := last != nil && last.done.IsZero()
	switch {
	case last != nil && last.action == a && !changed && (running || time.Since(last.done) < spreadRest):
		return true
	case running:
		o.spreads[s] = &spread{action: a, hosts: hosts}
		return true
	case o.spreading >= spreadsAtOnce:
		return false
	case len(o.spreads) >= spreadsKept:
		maps.DeleteFunc(o.spreads, func(_ optout.Subject, w *spread) bool { return !w.done.IsZero() })
	}
	w := &spread{action: a, hosts: hosts}
	o.spreads[s] = w
	o.spreading++
	o.deps.Spawn(func(ctx context.Context) {
		for next := w; next != nil; {
			left := o.spread(ctx, s, next)
			next = o.spreadEnded(s, next, left > 0, ctx.Err() != nil)
		}
	})
	return true
}

// spreadEnded records the end of a notification, and returns the next one of the domain.
func (o *OptOuts) spreadEnded(s optout.Subject, w *spread, failed, stopping bool) (next *spread) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if next = o.spreads[s]; next != w && !stopping {
		return next
	}
	o.spreading--
	if w.done = time.Now(); failed || stopping {
		delete(o.spreads, s) // a repeated report restarts it
	}
	return nil
}

// stands reports whether an opt-out is the latest of its domain.
func (o *OptOuts) stands(s optout.Subject, w *spread) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.spreads[s] == w
}

// spread notifies the owners of hosts while the opt-out is the latest, and returns the number of
// failures.
func (o *OptOuts) spread(ctx context.Context, s optout.Subject, w *spread) int {
	hosts := w.hosts
	for try := 0; len(hosts) > 0 && try < optOutTries; try++ {
		var left []string
		for _, host := range hosts {
			if loop.Sleep(ctx, optOutPace) != nil || !o.stands(s, w) {
				return len(hosts)
			}
			call, cancel := context.WithTimeout(ctx, callTime)
			_, err := o.announceTo(call, ring.HostKey(host), rpc.ServiceOwner, s, w.action, host)
			cancel()
			if err != nil && !rpc.Refused(err) {
				left = append(left, host)
			}
			if err != nil {
				o.deps.Log.Debug("notifying an owner of an opt-out failed", "host", host, "err", err)
			}
		}
		if hosts = left; len(hosts) > 0 && loop.Sleep(ctx, optOutPause<<try) != nil {
			return len(hosts)
		}
	}
	if len(hosts) > 0 {
		o.deps.Log.Warn("notifying owners of an opt-out failed", "subject", s.String(), "hosts", len(hosts))
	}
	return len(hosts)
}

// Run refreshes the lists, and announces their hosts and domains to the ring.
func (o *OptOuts) Run(ctx context.Context) error {
	told := make(map[optout.Subject]bool)
	kick := make(chan struct{}, 1)
	kick <- struct{}{}
	o.deps.Lists.changed = func() {
		o.deps.Changed()
		loop.Wake(kick)
	}
	done := make(chan error, 1)
	go func() { done <- o.deps.Lists.run(ctx) }()
	again := time.NewTicker(optOutAgain) // does nothing if all were accepted
	defer again.Stop()
	for {
		select {
		case <-again.C:
			o.announceLists(ctx, told)
		case <-kick:
			o.announceLists(ctx, told)
		case err := <-done:
			return err
		}
	}
}

// announceLists announces the subjects of the lists that were not announced yet. A subject rejected
// for lack of a proof applies at this peer alone.
func (o *OptOuts) announceLists(ctx context.Context, told map[optout.Subject]bool) {
	for _, s := range o.deps.Lists.subjects() {
		if told[s] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		_, err := o.Announce(call, s, optout.Out)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || rpc.Refused(err):
			told[s] = true
		}
		if err != nil {
			o.deps.Log.Debug("announcing an opt-out to the ring failed", "subject", s.String(), "err", err)
		}
		if loop.Sleep(ctx, optOutPace) != nil {
			return
		}
	}
}

// formDesk performs the actions of the form. The site is checked here first, also in the profile
// without proofs, since the form is open to untrusted users.
type formDesk struct{ *OptOuts }

var _ optout.Setter = formDesk{}

// SetOptOut implements optout.Setter.
func (d formDesk) SetOptOut(ctx context.Context, s optout.Subject, a optout.Action) error {
	if err := d.deps.Prover.Check(ctx, s, a); err != nil {
		return err
	}
	_, err := d.Announce(ctx, s, a)
	return err
}

// routes are the pages for webmasters: the form, and IndexNow.
func (o *OptOuts) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", optout.NewForm(formDesk{o}, o.deps.Contact))
	mux.Handle("/indexnow", newIndexNow(o.deps.Prover.get, o.deps.Lists, o.deps.Signal))
	return mux
}

// Serve serves the form until ctx ends.
func (o *OptOuts) Serve(ctx context.Context, form net.Listener) error {
	srv := &http.Server{
		Handler: o.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(o.deps.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(netutil.LimitListener(form, formConns)) }()
	select {
	case err := <-served:
		return fmt.Errorf("opt-out form: %w", err)
	case <-ctx.Done():
	}
	err := srv.Close()
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// decodeOptOut decodes an untrusted opt-out.
func decodeOptOut(m *wire.OptOut) (s optout.Subject, a optout.Action, err error) {
	if s, err = optout.ParseSubject(m.GetSubject()); err == nil {
		a, err = optout.ParseAction(m.GetAction())
	}
	if err != nil {
		return s, a, rpc.Refuse("%v", err)
	}
	return s, a, nil
}

// Hosts is the interface to the owner of hosts.
type Hosts interface {
	// Serves returns nil if this peer owns a host, or the error to reply with.
	Serves(host string) error
	// OptOut records an opt-out of a host or its withdrawal, and returns when that is on disk, here
	// and at the required replicas.
	OptOut(ctx context.Context, host string, out bool, by string) (changed bool, err error)
}

// RunClaims checks opt-outs and withdrawals in records of other owners at the sites, until ctx
// ends. Next returns the first of a host behind another; false: there is none.
func (o *OptOuts) RunClaims(ctx context.Context, hosts Hosts, next func(ctx context.Context, behind string) (owner.Claim, bool, error), domains *Domains) error {
	if !o.deps.Demand {
		return nil
	}
	again, behind := loop.NewPaces(1.0/claimAgainSeconds, 1, loop.MaxPeers), ""
	for loop.Sleep(ctx, claimEvery) == nil {
		c, ok, err := next(ctx, behind)
		if behind = c.Host; err == nil && ok && again.Allow(time.Now(), c.Host, 1) && hosts.Serves(c.Host) == nil {
			if shown := o.shown(ctx, &c); final(shown) {
				_, err = hosts.OptOut(ctx, c.Host, c.Out == (shown == nil), c.Why)
			}
		}
		if err = errors.Join(err, domains.checkClaim(ctx)); err != nil && ctx.Err() == nil {
			o.deps.Log.Debug("checking opt-outs in records failed", "err", err)
		}
	}
	return nil
}

// shown checks a claim: at its subject, or if that does not cover the host, at host and domain.
func (o *OptOuts) shown(ctx context.Context, c *owner.Claim) error {
	a := actionOf(c.Out)
	s, _, _, err := decodeHostOptOut(&wire.OptOut{Subject: c.Why, Action: string(a), Host: c.Host})
	if err == nil {
		return o.Prove(ctx, s, a)
	}
	if err = o.Prove(ctx, optout.Subject{Kind: optout.KindHost, Name: c.Host}, a); !final(err) || err == nil {
		return err
	}
	return o.Prove(ctx, optout.Subject{Kind: optout.KindDomain, Name: domain.Of(c.Host)}, a)
}

func actionOf(out bool) optout.Action {
	if out {
		return optout.Out
	}
	return optout.Back
}

// provedCallers authorizes the reports of a domain's opt-out: in the public profile the site itself
// is checked.
var provedCallers = rpc.Anyone("this peer owns the domain; the site shows the proof")

// HostsService processes opt-outs of hosts that this peer owns. That of a whole domain must come
// from the domain's owner: with a single proof, other peers could create a record for each name
// below it.
func (o *OptOuts) HostsService(hosts Hosts) rpc.Service {
	who := rpc.Anyone("this peer owns the host; the site shows the proof; opt-out of a whole domain: caller is a member")
	return optOutMethod(rpc.ServiceOwner).Handle(who, func(ctx context.Context, _ peer.ID, m *wire.OptOut) (*wire.OptOutReply, error) {
		s, a, host, err := decodeHostOptOut(m)
		if err != nil {
			return nil, err
		}
		if err := hosts.Serves(host); err != nil {
			return nil, err
		}
		if s.Kind == optout.KindDomain && !rpc.OfMember(ctx) {
			return nil, rpc.Busy("opt-out of a domain: the caller is not known to be its owner")
		}
		if err := o.Prove(ctx, s, a); err != nil {
			return nil, unproved(err)
		}
		changed, err := hosts.OptOut(ctx, host, a == optout.Out, s.String())
		if err != nil {
			return nil, err
		}
		return &wire.OptOutReply{Changed: changed}, nil
	})
}

// decodeHostOptOut decodes an untrusted opt-out for the owner of a host. The subject must cover the
// host.
func decodeHostOptOut(m *wire.OptOut) (s optout.Subject, a optout.Action, host string, err error) {
	if s, a, err = decodeOptOut(m); err != nil {
		return s, a, "", err
	}
	host = m.GetHost()
	canonical, err := link.Canonical("http://" + host + "/")
	if err != nil || link.Host(canonical) != host {
		return s, a, "", rpc.Refuse("opt-out: host %.80q", host)
	}
	if s.Kind == optout.KindHost && s.Name != host || s.Kind == optout.KindDomain && !domain.Covers(s.Name, host) {
		return s, a, "", rpc.Refuse("%s does not cover %s", s, host)
	}
	return s, a, host, nil
}
