package manners

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
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

const (
	// callTime bounds one question to another peer.
	callTime = 5 * time.Second
	// optOutPace is the time between two subjects of a list that are told to the ring, and two
	// hosts of a domain.
	optOutPace = 20 * time.Millisecond
	// optOutTries is how often the owner of a host is tried to be told of its domain's wish,
	// optOutPause the first time between, which doubles: an owner that looked at too many sites is
	// busy for a minute.
	optOutTries = 7
	optOutPause = time.Second
	// spreadsAtOnce bounds the wishes of domains that are told to the owners of hosts, spreadRest is
	// how long one that all were told of is not told again, spreadsKept bounds those remembered.
	spreadsAtOnce = 64
	spreadRest    = time.Minute
	spreadsKept   = 1024
	// optOutAgain is when what the ring did not take of a list is told again.
	optOutAgain = time.Minute
	// formConns bounds the connections to the form.
	formConns = 64
)

// OptOutsDeps are what opt-outs use of the peer.
type OptOutsDeps struct {
	Lists  *Lists  // this peer's own
	Prover *Prover // looks at sites for proofs
	// Demand says that a site has to show what it asks for, whoever brings it.
	Demand bool
	Owners rpc.Owners // reaches the owners of domains and hosts
	// Changed is told when a list of this peer is another.
	Changed func()
	// Spawn runs a function beside everything else, for as long as the peer lives.
	Spawn   func(fn func(ctx context.Context))
	Contact string       // on the form
	Log     *slog.Logger // hears whom it could not tell
}

// OptOuts tells the ring of the wishes of sites: those on this peer's lists, those that its form
// brings, and those that it is asked to pass on.
type OptOuts struct {
	deps OptOutsDeps

	mu        sync.Mutex // guards what follows
	spreads   map[optout.Subject]*spread
	spreading int // of them that are under way
}

// spread is the last wish of a domain that was told to the owners of its hosts.
type spread struct {
	action optout.Action
	hosts  []string
	told   time.Time // all were; zero while it is under way
}

// NewOptOuts returns opt-outs that are yet to run.
func NewOptOuts(d OptOutsDeps) *OptOuts {
	return &OptOuts{deps: d, spreads: make(map[optout.Subject]*spread)}
}

// Prover is what looks at sites.
func (o *OptOuts) Prover() *Prover { return o.deps.Prover }

// Prove checks that a site asks for something itself, where that is demanded. It is the one who
// keeps the wish that looks, whoever brought it.
func (o *OptOuts) Prove(ctx context.Context, s optout.Subject, a optout.Action) error {
	if !o.deps.Demand {
		return nil
	}
	return o.deps.Prover.Check(ctx, s, a)
}

// Tell tells the ring of a wish.
func (o *OptOuts) Tell(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error) {
	if s.Kind == optout.KindDomain {
		return o.tell(ctx, domain.Key(domain.Of(s.Name)), ServiceDomains, s, a, "")
	}
	return o.tell(ctx, ring.HostKey(s.Name), rpc.ServiceOwner, s, a, s.Name)
}

func (o *OptOuts) tell(ctx context.Context, key ring.Key, service string, s optout.Subject, a optout.Action, host string) (changed bool, err error) {
	reply, err := wishesAt(service).CallOwner(ctx, o.deps.Owners, key, &wire.OptOut{Subject: s.String(), Action: string(a), Host: host})
	return reply.GetChanged(), err
}

// Spread tells the owners of a domain's hosts of its wish, beside everything else and behind the
// one before, unless that is the same and under way, or all were told of it just now. It is false
// where too many are under way.
func (o *OptOuts) Spread(s optout.Subject, a optout.Action, hosts []string, changed bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.spreads[s]
	running := last != nil && last.told.IsZero()
	switch {
	case last != nil && last.action == a && !changed && (running || time.Since(last.told) < spreadRest):
		return true
	case running:
		o.spreads[s] = &spread{action: a, hosts: hosts}
		return true
	case o.spreading >= spreadsAtOnce:
		return false
	case len(o.spreads) >= spreadsKept:
		maps.DeleteFunc(o.spreads, func(_ optout.Subject, w *spread) bool { return !w.told.IsZero() })
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

// spreadEnded notes how telling of a wish ended, and returns the one that came meanwhile.
func (o *OptOuts) spreadEnded(s optout.Subject, w *spread, failed, stopping bool) (next *spread) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if next = o.spreads[s]; next != w && !stopping {
		return next
	}
	o.spreading--
	if w.told = time.Now(); failed || stopping {
		delete(o.spreads, s) // whoever brings it again has it told again
	}
	return nil
}

// stands says whether a wish is the last one of its domain.
func (o *OptOuts) stands(s optout.Subject, w *spread) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.spreads[s] == w
}

// spread tells the owners of hosts of a wish as long as it stands, and returns how many it could
// not tell.
func (o *OptOuts) spread(ctx context.Context, s optout.Subject, w *spread) int {
	hosts := w.hosts
	for try := 0; len(hosts) > 0 && try < optOutTries; try++ {
		var left []string
		for _, host := range hosts {
			if loop.Sleep(ctx, optOutPace) != nil || !o.stands(s, w) {
				return len(hosts)
			}
			call, cancel := context.WithTimeout(ctx, callTime)
			_, err := o.tell(call, ring.HostKey(host), rpc.ServiceOwner, s, w.action, host)
			cancel()
			if err != nil && !rpc.Refused(err) {
				left = append(left, host)
			}
			if err != nil {
				o.deps.Log.Debug("owner not told of an opt-out", "host", host, "err", err)
			}
		}
		if hosts = left; len(hosts) > 0 && loop.Sleep(ctx, optOutPause<<try) != nil {
			return len(hosts)
		}
	}
	if len(hosts) > 0 {
		o.deps.Log.Warn("owners not told of an opt-out", "subject", s.String(), "hosts", len(hosts))
	}
	return len(hosts)
}

// Run keeps the lists, and tells the ring of the hosts and domains on them as they come.
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
	again := time.NewTicker(optOutAgain) // finds nothing to do where all was taken
	defer again.Stop()
	for {
		select {
		case <-again.C:
			o.tellLists(ctx, told)
		case <-kick:
			o.tellLists(ctx, told)
		case err := <-done:
			return err
		}
	}
}

// tellLists tells the ring of what is on the lists and was not told yet. What is not taken, for
// want of a proof, holds at this peer alone.
func (o *OptOuts) tellLists(ctx context.Context, told map[optout.Subject]bool) {
	for _, s := range o.deps.Lists.subjects() {
		if told[s] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		_, err := o.Tell(call, s, optout.Out)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || rpc.Refused(err):
			told[s] = true
		}
		if err != nil {
			o.deps.Log.Debug("the ring was not told of an opt-out", "subject", s.String(), "err", err)
		}
		if loop.Sleep(ctx, optOutPace) != nil {
			return
		}
	}
}

// formDesk does what the form asks for. The site is looked at here first, in the profile that asks
// for no proofs too: strangers come by the form.
type formDesk struct{ *OptOuts }

var _ optout.Setter = formDesk{}

// SetOptOut implements optout.Setter.
func (d formDesk) SetOptOut(ctx context.Context, s optout.Subject, a optout.Action) error {
	if err := d.deps.Prover.Check(ctx, s, a); err != nil {
		return err
	}
	_, err := d.Tell(ctx, s, a)
	return err
}

// Serve serves the form until ctx ends.
func (o *OptOuts) Serve(ctx context.Context, form net.Listener) error {
	srv := &http.Server{
		Handler: optout.NewForm(formDesk{o}, o.deps.Contact), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(o.deps.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(netutil.LimitListener(form, formConns)) }()
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

// readWish reads what a stranger says of a wish.
func readWish(m *wire.OptOut) (s optout.Subject, a optout.Action, err error) {
	if s, err = optout.ParseSubject(m.GetSubject()); err == nil {
		a, err = optout.ParseAction(m.GetAction())
	}
	if err != nil {
		return s, a, rpc.Refuse("%v", err)
	}
	return s, a, nil
}

// Hosts is the owner of hosts, as their wishes see it.
type Hosts interface {
	// Serves says, as the error to answer with, whether this peer owns a host.
	Serves(host string) error
	// OptOut notes that somebody wants a host left alone, or crawled again, and returns when that
	// is on the disks that count.
	OptOut(ctx context.Context, host string, out bool, by string) (changed bool, err error)
}

// provedWish is who may tell of a domain's wish: in the public profile the site itself is asked
// whether it has it.
var provedWish = rpc.Anyone("that this peer serves the host, and that the site says so")

// HostsService takes the wishes of hosts that this peer owns. That of a whole domain is brought by
// who answers for it: with the one proof that it takes, others could have a record made of each
// name below it.
func (o *OptOuts) HostsService(hosts Hosts) rpc.Service {
	who := rpc.Anyone("that this peer serves the host, and that the site says so; that who brings the wish of a whole domain is a member")
	return wishesAt(rpc.ServiceOwner).Handle(who, func(ctx context.Context, _ peer.ID, m *wire.OptOut) (*wire.OptOutReply, error) {
		s, a, host, err := hostWish(m)
		if err != nil {
			return nil, err
		}
		if err := hosts.Serves(host); err != nil {
			return nil, err
		}
		if s.Kind == optout.KindDomain && !rpc.OfMember(ctx) {
			return nil, rpc.Busy("the wish of a domain is taken of who answers for it, who is not known to be the caller")
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

// hostWish reads what a stranger says of a wish to the owner of a host. Whoever has it speaks for
// the host.
func hostWish(m *wire.OptOut) (s optout.Subject, a optout.Action, host string, err error) {
	if s, a, err = readWish(m); err != nil {
		return s, a, "", err
	}
	host = m.GetHost()
	canonical, err := link.Canonical("http://" + host + "/")
	if err != nil || link.Host(canonical) != host {
		return s, a, "", rpc.Refuse("opt-out: host %.80q", host)
	}
	if s.Kind == optout.KindHost && s.Name != host || s.Kind == optout.KindDomain && !domain.Covers(s.Name, host) {
		return s, a, "", rpc.Refuse("%s does not speak for %s", s, host)
	}
	return s, a, host, nil
}
