package manners

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// ServiceDomains is the service of those that answer for registrable domains.
const ServiceDomains = "domain"

// The first byte of a request to it.
const (
	tagAdmission = 'A'
	// TagWish is that of a wish, to the owner of a host as well, of which [OptOuts.HostsService] is
	// the handler.
	TagWish = 'W'
)

// admissionMethod asks which hosts of a domain a job may have. It is bounded in time: the hosts'
// owner asks again later.
var admissionMethod = rpc.Method[*wire.Admission, *wire.AdmissionReply]{
	Service: ServiceDomains, Tag: tagAdmission, Within: 4 * time.Second,
	Check: func(q *wire.Admission, a *wire.AdmissionReply) error { return a.Validate(len(q.GetHost())) },
}

// wishesAt tells who answers for a domain, or for a host, of a wish to be left alone, or to be
// crawled again.
func wishesAt(service string) rpc.Method[*wire.OptOut, *wire.OptOutReply] {
	return rpc.Method[*wire.OptOut, *wire.OptOutReply]{Service: service, Tag: TagWish}
}

// DomainsDeps are what domains use of the peer.
type DomainsDeps struct {
	Records kv.Store // where they are kept
	// Hosts is how many hosts of a domain a job may have, Novelty when a domain of small hosts
	// counts as a trap; see domain.New.
	Hosts, Novelty int
	Router         *rpc.Router // finds the owners of domains
	// Settled says whether the records of a key have all arrived here.
	Settled func(key ring.Key) bool
	// Prove checks that a site asks for something itself; Spread has the owners of hosts told of it,
	// unless there is no room.
	Prove  func(ctx context.Context, s optout.Subject, a optout.Action) error
	Spread func(s optout.Subject, a optout.Action, hosts []string, changed bool) bool
	// Spawn runs a function beside everything else, for as long as the peer lives.
	Spawn func(fn func(ctx context.Context))
	Log   *slog.Logger // hears what went wrong
}

// Domains is both sides of what is kept of registrable domains: it answers for those whose places
// this peer serves, and asks the others.
type Domains struct {
	deps      DomainsDeps
	state     *domain.Store
	loop      *loop.Serial
	inquiries inquiries
}

// NewDomains returns what runs once Run is called.
func NewDomains(d DomainsDeps) (*Domains, error) {
	state, err := domain.New(d.Records, d.Hosts, d.Novelty)
	if err != nil {
		return nil, err
	}
	return &Domains{deps: d, state: state, loop: loop.NewSerial(), inquiries: inquiries{spawn: d.Spawn}}, nil
}

// Run answers until ctx ends.
func (d *Domains) Run(ctx context.Context) error { return d.loop.Run(ctx) }

// DoOver runs fn between requests until it says that it is through.
func (d *Domains) DoOver(ctx context.Context, fn func() (through bool)) error {
	return d.loop.DoOver(ctx, fn)
}

// Service answers peers.
func (d *Domains) Service() rpc.Service {
	return rpc.Together(admissionMethod.Handle(rpc.Members("that this peer serves the domain"), d.admit), wishesAt(ServiceDomains).Handle(provedWish, d.takeOptOut))
}

// takeOptOut answers who tells of a domain's wish.
func (d *Domains) takeOptOut(ctx context.Context, _ peer.ID, m *wire.OptOut) (*wire.OptOutReply, error) {
	s, a, err := readWish(m)
	if err != nil {
		return nil, err
	}
	changed, err := d.optOut(ctx, s, a)
	if err != nil {
		return nil, err
	}
	return &wire.OptOutReply{Changed: changed}, nil
}

// serves says, as the error to answer with, whether this peer speaks for a registrable domain.
func (d *Domains) serves(name string) error {
	key := domain.Key(name)
	switch {
	case !d.deps.Router.Ring.Serves(key):
		return d.deps.Router.Moved(key)
	case !d.deps.Settled(key):
		return rpc.Busy("what is kept of the domain may still be on its way")
	default:
		return nil
	}
}

// admit answers which hosts of one domain a job may have; it returns when that is on the disks that
// count.
func (d *Domains) admit(ctx context.Context, _ peer.ID, m *wire.Admission) (*wire.AdmissionReply, error) {
	name := domain.Of(m.GetHost()[0])
	for _, host := range m.GetHost() {
		if domain.Of(host) != name {
			return nil, rpc.Refuse("admission: hosts of %.80q and of %.80q in one question", name, domain.Of(host))
		}
	}
	if err := d.serves(name); err != nil {
		return nil, err
	}
	var verdicts []domain.Verdict
	var stale bool
	var wait func() error
	var err error
	said := saidIn(m)
	if lerr := d.loop.Do(ctx, func() {
		if _, err = d.state.Tell(job.ID(m.GetJob()), name, said); err == nil { // what of it is lost with this peer is told of other hosts
			verdicts, wait, err = d.state.Admit(job.ID(m.GetJob()), m.GetHost())
		}
		if err == nil {
			stale, err = d.state.Stale(job.ID(m.GetJob()), name)
		}
	}); lerr != nil {
		return nil, lerr
	}
	if err = d.failure(err); err == nil {
		err = wait()
	}
	if err != nil {
		return nil, err
	}
	reply := &wire.AdmissionReply{Verdict: make([]byte, len(verdicts)), Stale: stale}
	for i, v := range verdicts {
		reply.Verdict[i] = byte(v)
	}
	return reply, nil
}

// failure is what is answered to an error of the state.
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

// optOut notes a domain's wish once the site has proved it, and has the owners of its hosts told.
func (d *Domains) optOut(ctx context.Context, s optout.Subject, a optout.Action) (changed bool, err error) {
	if s.Kind != optout.KindDomain {
		return false, rpc.Refuse("%s is no domain", s)
	}
	if err := d.serves(domain.Of(s.Name)); err != nil {
		return false, err
	}
	if err := d.deps.Prove(ctx, s, a); err != nil {
		return false, unproved(err)
	}
	var wait func() error
	var hosts []string
	changed, err = loop.Get(ctx, d.loop, func() (changed bool, err error) {
		if changed, wait, err = d.state.SetOptOut(time.Now(), s.Name, a == optout.Out); err == nil {
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
	if !d.deps.Spread(s, a, hosts, changed) { // also if it was so before: not all may have been told then
		return false, rpc.Busy("too many wishes are being told to the owners of hosts, ask again later")
	}
	return changed, nil
}

// hostsOf are those below a domain that some job may have, and those two that nobody asks for. On
// the loop.
func (d *Domains) hostsOf(name string) (list []string, err error) {
	for _, plain := range []string{name, "www." + name} {
		if domain.Plain(plain) || plain == name {
			list = append(list, plain)
		}
	}
	err = d.state.Hosts(domain.Of(name), func(host string) bool {
		if domain.Covers(name, host) {
			list = append(list, host)
		}
		return true
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// Answers hears what came of questions for admissions: it is the owner of the hosts.
type Answers interface {
	// Admitted says whether a host may be crawled, Stale that a job gets no more hosts of a domain.
	Admitted(a owner.Admission, v domain.Verdict)
	Stale(id job.ID, name string) // says that a job gets no more hosts of a domain
}

// Inquire asks for admissions beside what calls it, which does not block. What finds no room is not
// asked: its owner comes back to it.
func (d *Domains) Inquire(list []owner.Admission, to Answers) {
	for _, q := range questions(list) {
		if !d.inquiries.put(func(ctx context.Context) {
			if d.ask(ctx, q, to.Admitted) {
				to.Stale(q[0].Job, domain.Of(q[0].Host))
			}
		}) {
			d.deps.Log.Debug("no room for a question for admissions", "domain", domain.Of(q[0].Host), "hosts", len(q))
		}
	}
}

// ask asks for admissions, in one question of one job and domain, calls fn with each answer there
// is, and says whether there will be no more of that domain.
func (d *Domains) ask(ctx context.Context, list []owner.Admission, fn func(owner.Admission, domain.Verdict)) (stale bool) {
	m := &wire.Admission{Job: list[0].Job[:]}
	for _, a := range list {
		m.Host = append(m.Host, a.Host)
		if a.Said != nil {
			tell(m, *a.Said)
		}
	}
	reply, err := admissionMethod.CallOwner(ctx, d.deps.Router, domain.Key(domain.Of(list[0].Host)), m)
	if err != nil {
		d.deps.Log.Debug("no admission", "domain", domain.Of(list[0].Host), "hosts", len(list), "err", err)
		return false
	}
	for i, a := range list {
		fn(a, domain.Verdict(reply.GetVerdict()[i]))
	}
	return reply.GetStale()
}

// tell puts what hosts said into a question, as far as there is room.
func tell(m *wire.Admission, list []farm.Said) {
	for _, s := range list[:min(len(list), wire.MaxSaid-len(m.GetSaidHost()))] {
		m.SaidHost = append(m.SaidHost, s.Host)
		m.SaidAll, m.SaidWords = append(m.SaidAll, s.All), append(m.SaidWords, s.Words)
		m.SaidBrought = append(m.SaidBrought, s.Brought)
	}
}

// saidIn is what a valid question tells.
func saidIn(m *wire.Admission) (list []farm.Said) {
	for i, host := range m.GetSaidHost() {
		list = append(list, farm.Said{Host: host, All: m.GetSaidAll()[i], Words: m.GetSaidWords()[i], Brought: m.GetSaidBrought()[i]})
	}
	return list
}

// questions groups admissions into what one question may hold: of one job, hosts of one domain.
func questions(list []owner.Admission) (groups [][]owner.Admission) {
	type group struct {
		id   job.ID
		name string
	}
	open := make(map[group]int) // which of groups
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

// Remove drops the records of an arc. Within DoOver.
func (d *Domains) Remove(lo, hi ring.Pos) error {
	_, err := d.state.Remove(lo, hi)
	return err
}

// Import merges records of another peer. Within DoOver; they need not be on disk when it returns.
func (d *Domains) Import(records []kv.Record) error {
	_, err := d.state.Import(records)
	return err
}

// OptedOut are domains that have opted out and are kept here, at most so many.
func (d *Domains) OptedOut(ctx context.Context, most int) (names []string, err error) {
	return loop.Get(ctx, d.loop, func() ([]string, error) {
		names := []string{}
		err := d.state.OptOuts(func(o *domain.OptOut) bool {
			if o.On {
				names = append(names, o.Domain)
			}
			return len(names) < most
		})
		return names, err
	})
}
