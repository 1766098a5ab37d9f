package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// OptOut notes that a host has opted out, or with on false that it has withdrawn that, and says
// whether it was otherwise before. Why is for people. Nothing is granted of the host from here on,
// its worker hears with its next message that it has lost it, and what was pending ends as opted
// out. Part of a step.
func (o *Owner) OptOut(name string, on bool, why string) (changed bool) {
	h := o.hosts.Find(name)
	if h == nil && on {
		h = o.hosts.Open(name)
	}
	if h == nil || h.Rec.OptOut.On == on {
		return false
	}
	h.Rec.Opts(on, o.Now, why)
	o.reviewer.optOutChanged(h)
	return true
}

// optOutChanged looks at a host anew.
func (rv *reviewer) optOutChanged(h *hosts.Host) {
	rv.hosts.Touched(h)
	if rv.WhyOptedOut(h) != "" {
		rv.placer.End(h)
		if h.Lease != nil && h.Frozen == 0 {
			// As after a failure of the whole host: its worker may be about to send a request.
			rv.leases.End(h, leases.Released, h.Lease.Expires)
		}
	} else {
		rv.intake.Known.Clear() // links to the host that were turned away are news when they are met again
	}
}

// OptOutsChanged says that the list of [Config.OptOuts] may answer otherwise than before: nothing
// is granted from here on that is on it, and the leases on hosts that are end with this step or the
// next ones. Part of a step.
func (o *Owner) OptOutsChanged() {
	o.reviewer.all(true)
	o.intake.Known.Clear()
}

// OptedOut lists hosts of this peer that have opted out by their records, up to limit. Between the
// inputs of a step, or between steps.
func (bk *books) OptedOut(limit int) (hosts []string) {
	bk.hosts.Flush()
	bk.Buf.Scan([]byte{ondisk.SpaceOptOut}, []byte{ondisk.SpaceOptOut + 1}, func(_, value []byte) bool {
		if len(value) > 1 {
			hosts = append(hosts, string(value[1:]))
		}
		return len(hosts) < limit
	})
	return hosts
}

// Admitted brings the answer to an Admission. Unknown means that there is none yet. Part of a step.
func (o *Owner) Admitted(a hosts.Admission, v domain.Verdict) {
	h := o.hosts.ByName[a.Host]
	if h == nil || v == domain.Unknown {
		return
	}
	if v == domain.OptedOut {
		o.OptOut(a.Host, true, "with the whole domain")
		return
	}
	js := o.jobs.ByID[a.Job]
	if js == nil {
		return
	}
	hj := h.Job(js)
	if hj == nil || hj.Tally.Counters().Admission != domain.Unknown {
		return
	}
	if v.TurnsAway() {
		full := domain.Of(a.Host)
		if v == domain.Ported {
			full = links.PortsOf(a.Host)
		}
		o.domains.Crowds(hosts.Crowd{ID: js.ID, Domain: full}, v)
		if js.Seeded(a.Host) {
			v = domain.Admitted // the poster wants it, whatever others of its domain are
		}
	}
	hj.Admit(v)
}

// Stale says that a job gets no more hosts of a registrable domain, as the last ones brought
// nothing new. Those of which nothing was asked for yet end as well, when their turn comes. Part of
// a step.
func (o *Owner) Stale(id job.ID, registrable string) {
	if o.Cfg.Novelty > 0 && o.jobs.ByID[id] != nil {
		o.domains.Crowds(hosts.Crowd{ID: id, Domain: registrable}, domain.Stale)
	}
}
