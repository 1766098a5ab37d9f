package owner

import (
	"math"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Links processes a [Delivery] within one step, regardless of its size. Part of a step.
func (o *Owner) Links(m *wire.Links) *wire.LinksReply {
	d := o.Delivery(m)
	for !d.Go() {
	}
	return d.Reply()
}

// Delivery is a batch of links that is processed over one or more steps.
type Delivery struct {
	owner   *Owner
	m       *wire.Links
	sources wire.Sources
	reply   *wire.LinksReply
	next    int
}

// Delivery begins to process a validated batch of links.
func (o *Owner) Delivery(m *wire.Links) *Delivery {
	return &Delivery{owner: o, m: m, sources: wire.SourcesOf(m, true), reply: &wire.LinksReply{}}
}

// Reply returns the reply, complete once Go has returned true; it may be sent after that step's
// Wait. All links that it does not list are handled: stored, already known, or not admitted.
func (d *Delivery) Reply() *wire.LinksReply { return d.reply }

// Go processes at least one piece of links, more while the step has capacity, and reports whether
// all are done. Part of a step.
func (d *Delivery) Go() (through bool) {
	for d.next < len(d.m.GetUrl()) {
		to := min(d.next+links.LinksAtOnce, len(d.m.GetUrl()))
		d.take(d.next, to)
		d.next = to
		if to < len(d.m.GetUrl()) && !d.owner.HasRoom() {
			return false
		}
	}
	return true
}

// take processes the links in [from, to).
func (d *Delivery) take(from, to int) {
	o, m, reply := d.owner, d.m, d.reply
	jobs := make([]*hosts.JobState, len(m.GetJobIds()))
	for i, id := range m.GetJobIds() {
		jobs[i] = o.jobs.Known(job.ID(id))
	}
	var list []links.Arrival
	var lastHost string
	var lastState hosts.Answer
	for i := from; i < to; i++ {
		a := links.Arrival{Js: jobs[column(m.GetJob(), i)]}
		a.Depth, a.Hops, a.Kind = column(m.GetDepth(), i), column(m.GetHops(), i), link.Kind(column(m.GetKind(), i))
		if a.Js == nil {
			reply.Busy = append(reply.Busy, uint32(i))
			continue
		}
		a.URL = string(m.GetUrl()[i])
		if m.GetRules() != link.RulesVersion {
			canonical, err := link.Canonical(a.URL)
			if err != nil {
				continue
			}
			a.URL = canonical
		}
		if a.Host = link.Host(a.URL); a.Host == "" {
			continue
		}
		if a.Host != lastHost {
			lastHost, lastState = a.Host, enter(o.hosts, nil, a.Host, nil, nil).answer
		}
		switch lastState {
		case hosts.Moved:
			reply.Moved = append(reply.Moved, uint32(i))
		case hosts.Busy:
			reply.Busy = append(reply.Busy, uint32(i))
		default:
			a.Hash, a.Source = link.Hash(a.Js.ID, a.URL), d.sources.Of(i)
			list = append(list, a)
		}
	}
	o.intake.Admit(list)
}

// column returns an element of a column; an empty one has zeros.
func column[E byte | uint32](c []E, i int) E {
	if len(c) == 0 {
		return 0
	}
	return c[i]
}

// Hashes calls fn for the hashes of a URL set in no order, until it returns false. It is used to
// build a filter.
func (o *Owner) Hashes(set ondisk.SetID, fn func(hash uint64) bool) error {
	if h, js := o.hosts.ByPos[set.Pos], o.jobs.ByID[set.Job]; h != nil && js != nil && h.Job(js) != nil {
		h.Job(js).Hashes(fn)
	} else {
		o.Buf.Hashes(set, math.MaxInt64, fn)
	}
	return o.Buf.Err()
}

// Outbox returns up to limit links that were not returned before, oldest first. The caller keeps
// each until the link's owner acknowledges it, and then calls Sent; links of a canceled job may be
// dropped the same way. It may be called between steps. Links may be sent before the step that
// found them is on disk, since a link is never wrong.
func (o *Owner) Outbox(limit int) []links.OutLink { return o.outgoing.Box.Next(limit) }

// Sent removes links that were acknowledged by the owners of their hosts. Part of a step.
func (o *Owner) Sent(ids []uint64) { o.outgoing.Sent(ids) }

// entry is the authorization of a caller for a host.
type entry struct {
	answer hosts.Answer // owner of the host; the other fields are set for Here only
	host   *hosts.Host  // nil: unknown host
	held   bool         // the caller holds the lease that it names
	heard  bool         // the caller may report outcomes of the host
}

// enter authorizes a request of another peer about a host, before anything of the host is read. All
// checks on callers belong here. The caller is a worker with its session, which may name the epoch
// of a lease and have a certificate, or a sender of links with none of them.
//
// For an answer other than Here, the caller asks the other owner, or retries. Workers get no answer
// while records may be missing, since one of them may be a lease.
func enter(t *hosts.Table, s *hosts.Session, name string, epoch *wire.Epoch, by *wire.Certificate) (e entry) {
	if s == nil {
		e.answer = t.AnswersFor(name)
	} else {
		e.answer = t.SpeaksFor(name, s, epoch)
	}
	if e.answer == hosts.Here {
		e.host = t.Find(name)
		e.held = s != nil && e.host.LeasedTo(s, epoch) // not renewed here: outcomes may follow an expired lease
		e.heard = s != nil && reportsOf(t, s, &e, name, by)
	}
	return e
}

// reportsOf reports whether a worker may report outcomes of a host: it has the host, or its
// certificate shows that it had it, under this owner or an earlier one. The end of a lease ends
// requests, not reports. Of a worker that has lost a check, only reports under its present lease
// count.
func reportsOf(t *hosts.Table, s *hosts.Session, e *entry, name string, by *wire.Certificate) bool {
	epoch := ondisk.Epoch{Counter: by.GetEpoch().GetCounter(), Peer: string(by.GetEpoch().GetPeer())}
	return s.Peer == t.Cfg.Self || e.held || t.Worker(s.Peer).Lost == 0 && t.Cfg.HasCertificate(name, s.Peer, epoch, by.GetSignature())
}

// Worked reports whether a peer is or was the host's worker. Part of a step.
func (o *Owner) Worked(peer, host string) bool {
	h := o.hosts.Find(host)
	return h != nil && h.Worked(peer)
}
