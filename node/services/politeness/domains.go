package politeness

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceDomains is the service of the owners of registrable domains.
const ServiceDomains = "domain"

// The first byte of a request identifies its type.
const (
	tagAdmission = 'A'
	// TagOptOut identifies an opt-out, also for the owner of a host, where [OptOuts.HostsService] is
	// the handler.
	TagOptOut = 'W'
)

// admissionMethod requests admissions of a domain's hosts to a job. Its time is bounded: the hosts'
// owner retries later.
var admissionMethod = rpc.Method[*wire.Admission, *wire.AdmissionReply]{
	Service: ServiceDomains, Tag: tagAdmission, Within: 4 * time.Second,
	Check: func(q *wire.Admission, a *wire.AdmissionReply) error { return a.Validate(len(q.GetHost())) },
}

// optOutMethod returns the method that reports an opt-out or its withdrawal to the owner of a
// domain or a host.
func optOutMethod(service string) rpc.Method[*wire.OptOut, *wire.OptOutReply] {
	return rpc.Method[*wire.OptOut, *wire.OptOutReply]{Service: service, Tag: TagOptOut}
}

// DomainsDeps are the dependencies of Domains.
type DomainsDeps struct {
	Records kv.Store    // store of the records
	Hosts   int         // host limit of a domain in a job, see domain.New
	Router  *rpc.Router // finds the owners of domains
	// Settled reports whether a key is synced.
	Settled func(key ring.Key) bool
	// ProveOptOuts requires a check of the site for opt-outs in records of other owners.
	ProveOptOuts bool
	// Prove verifies the proof of a site; Spread notifies the owners of hosts, and returns false above
	// its limit.
	Prove  func(ctx context.Context, s optout.Subject, a optout.Action) error
	Spread func(s optout.Subject, a optout.Action, hosts []string, changed bool) bool
	Log    *slog.Logger // reports failures
}

// Domains is server and client of the records of registrable domains: it serves those that this
// peer owns, and queries the owners of others.
type Domains struct {
	*loop.Serial // serializes access to State
	State        *domain.Store

	deps      DomainsDeps
	inquiries inquiries
}

// NewDomains returns Domains, which reply once Run is called.
func NewDomains(d DomainsDeps) (*Domains, error) {
	state, err := domain.New(d.Records, d.Hosts)
	if err != nil {
		return nil, err
	}
	state.ProveOptOuts = d.ProveOptOuts
	return &Domains{Serial: loop.NewSerial(), State: state, deps: d, inquiries: make(inquiries, admissionWaiting)}, nil
}

// Run serves requests, and sends those of Inquire, until ctx ends.
func (d *Domains) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	asking.Go(func() { d.inquiries.run(ctx) })
	defer asking.Wait()
	return d.Serial.Run(ctx)
}

// Service returns the service for other peers.
func (d *Domains) Service() rpc.Service {
	return rpc.Together(admissionMethod.Handle(rpc.Members("this peer owns the domain"), d.admit), optOutMethod(ServiceDomains).Handle(provedCallers, d.takeOptOut))
}

// takeOptOut processes a reported opt-out of a domain.
func (d *Domains) takeOptOut(ctx context.Context, _ peer.ID, m *wire.OptOut) (*wire.OptOutReply, error) {
	s, a, err := decodeOptOut(m)
	if err != nil {
		return nil, err
	}
	changed, err := d.optOut(ctx, s, a)
	if err != nil {
		return nil, err
	}
	return &wire.OptOutReply{Changed: changed}, nil
}

// serves returns nil if this peer owns a registrable domain, or the error to reply with.
func (d *Domains) serves(name string) error {
	key := domain.Key(name)
	switch {
	case !d.deps.Router.Ring.Serves(key):
		return d.deps.Router.Moved(key)
	case !d.deps.Settled(key):
		return rpc.Busy("domain: records are being transferred")
	default:
		return nil
	}
}

// admit processes an admission request; it returns when the verdicts are on disk, here and at the
// required replicas.
func (d *Domains) admit(ctx context.Context, _ peer.ID, m *wire.Admission) (*wire.AdmissionReply, error) {
	name := domain.Of(m.GetHost()[0])
	for _, host := range m.GetHost() {
		if domain.Of(host) != name {
			return nil, rpc.Refuse("admission: hosts of %.80q and of %.80q in one request", name, domain.Of(host))
		}
	}
	if err := d.serves(name); err != nil {
		return nil, err
	}
	var verdicts []domain.Verdict
	var wait func() error
	var err error
	if lerr := d.Do(ctx, func() {
		verdicts, wait, err = d.State.Admit(job.ID(m.GetJob()), m.GetHost())
	}); lerr != nil {
		return nil, lerr
	}
	if err = d.failure(err); err == nil {
		err = wait()
	}
	if err != nil {
		return nil, err
	}
	reply := &wire.AdmissionReply{Verdict: make([]byte, len(verdicts))}
	for i, v := range verdicts {
		reply.Verdict[i] = byte(v)
	}
	return reply, nil
}

// failure converts an error of the state to a reply.
func (d *Domains) failure(err error) error {
	switch {
	case errors.Is(err, domain.ErrFull):
		return rpc.Busy(err.Error())
	case errors.Is(err, domain.ErrRecord):
		return rpc.Refuse("%v", err)
	default:
		return err
	}
}

// optOut stores a proven opt-out of a domain, and notifies the owners of its hosts.
func (d *Domains) optOut(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error) {
	if s.Kind != optout.KindDomain {
		return false, rpc.Refuse("%s is not a domain", s)
	}
	if err := d.serves(domain.Of(s.Name)); err != nil {
		return false, err
	}
	if err := d.deps.Prove(ctx, s, a); err != nil {
		return false, unproved(err)
	}
	var wait func() error
	var hosts []string
	changed, err = loop.Get(ctx, d.Serial, func() (changed bool, err error) {
		if changed, wait, err = d.State.SetOptOut(time.Now(), s.Name, a == optout.Out); err == nil {
			hosts, err = d.hostsOf(s.Name)
		}
		return changed, err
	})
	if err = d.failure(err); err == nil {
		err = wait()
	}
	if err != nil {
		return false, err
	}
	if !d.deps.Spread(s, a, hosts, changed) { // also if unchanged: some owners may have missed it
		return false, rpc.Busy("too many opt-outs in progress, retry later")
	}
	return changed, nil
}

// checkClaim checks an opt-out in a record of another owner at the site, and stores the result.
func (d *Domains) checkClaim(ctx context.Context) error {
	c, err := loop.Get(ctx, d.Serial, d.State.NextClaim)
	if err != nil || c == nil || d.serves(domain.Of(c.Domain)) != nil {
		return err
	}
	subject := optout.Subject{Kind: optout.KindDomain, Name: c.Domain}
	shown := d.deps.Prove(ctx, subject, actionOf(c.On))
	if !final(shown) {
		return nil // it is a claim again when a host is asked for
	}
	if shown == nil {
		_, err = d.optOut(ctx, subject, actionOf(c.On))
		return err
	}
	wait, err := loop.Get(ctx, d.Serial, func() (func() error, error) {
		_, wait, err := d.State.SetOptOut(time.Now(), c.Domain, !c.On)
		return wait, err
	})
	if err != nil {
		return err
	}
	return wait()
}

// hostsOf returns the hosts below a domain that were admitted to any job, and the two that need no
// admission. On the loop.
func (d *Domains) hostsOf(name string) (list []string, err error) {
	for _, plain := range []string{name, "www." + name} {
		if domain.Plain(plain) || plain == name {
			list = append(list, plain)
		}
	}
	err = d.State.Hosts(domain.Of(name), func(host string) bool {
		if domain.Covers(name, host) {
			list = append(list, host)
		}
		return true
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// Inquire sends admission requests asynchronously, and calls admitted with each verdict. Requests
// that do not fit into the queue are dropped: the owner of the hosts repeats them.
func (d *Domains) Inquire(list []owner.Admission, admitted func(a owner.Admission, v domain.Verdict)) {
	for _, q := range questions(list) {
		if !d.inquiries.put(func(ctx context.Context) { d.ask(ctx, q, admitted) }) {
			d.deps.Log.Debug("admission request dropped, queue full", "domain", domain.Of(q[0].Host), "hosts", len(q))
		}
	}
}

// ask requests admissions of one job and domain, and calls fn with each verdict.
func (d *Domains) ask(ctx context.Context, list []owner.Admission, fn func(owner.Admission, domain.Verdict)) {
	m := &wire.Admission{Job: list[0].Job[:]}
	for _, a := range list {
		m.Host = append(m.Host, a.Host)
	}
	reply, err := admissionMethod.CallOwner(ctx, d.deps.Router, domain.Key(domain.Of(list[0].Host)), m)
	if err != nil {
		d.deps.Log.Debug("admission request failed", "domain", domain.Of(list[0].Host), "hosts", len(list), "err", err)
		return
	}
	for i, a := range list {
		fn(a, domain.Verdict(reply.GetVerdict()[i]))
	}
}

// questions groups admissions into requests: of one job, and of hosts of one domain.
func questions(list []owner.Admission) (groups [][]owner.Admission) {
	type group struct {
		id   job.ID
		name string
	}
	open := make(map[group]int) // index in groups
	for _, a := range list {
		g := group{a.Job, domain.Of(a.Host)}
		i, ok := open[g]
		if !ok || len(groups[i]) >= wire.MaxAdmissions {
			i = len(groups)
			open[g] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], a)
	}
	return groups
}

// OptedOut returns up to most domains stored here that have opted out.
func (d *Domains) OptedOut(ctx context.Context, most int) (names []string, err error) {
	return loop.Get(ctx, d.Serial, func() ([]string, error) {
		names := []string{}
		err := d.State.OptOuts(func(o *domain.OptOut) bool {
			if o.Out() {
				names = append(names, o.Domain)
			}
			return len(names) < most
		})
		return names, err
	})
}
