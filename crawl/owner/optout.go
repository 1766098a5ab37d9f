package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// OptOuts is this peer's own list of what is not to be crawled, from memory. Each method says why,
// in a few words; nothing if there is no reason.
type OptOuts interface {
	// Host is asked of a host as a whole, URL of a canonical URL, its host included.
	Host(host string) (why string)
	URL(url string) (why string) // says why a URL is not to be crawled
}

// noOptOuts is the empty list.
type noOptOuts struct{}

func (noOptOuts) Host(string) string { return "" }
func (noOptOuts) URL(string) string  { return "" }

// OptOut notes that a host has opted out, or with on false that it has withdrawn that, and says
// whether it was otherwise before. Why is for people. Nothing is granted of the host from here on,
// its worker hears with its next message that it has lost it, and what was pending ends as opted
// out. Part of a step.
func (o *Owner) OptOut(name string, on bool, why string) (changed bool) {
	h := o.hosts.find(name)
	if h == nil && on {
		h = o.hosts.open(name)
	}
	if h == nil || h.rec.OptOut.On == on {
		return false
	}
	h.rec.Opts(on, o.now, why)
	o.reviewer.optOutChanged(h)
	return true
}

// optOutChanged looks at a host anew.
func (rv *reviewer) optOutChanged(h *host) {
	rv.hosts.touched(h)
	if rv.optedOut(h) != "" {
		rv.placer.end(h)
		if h.lease != nil && h.frozen == 0 {
			// As after a failure of the whole host: its worker may be about to send a request.
			rv.leases.end(h, released, h.lease.expires)
		}
	} else {
		rv.intake.known.clear() // links to the host that were turned away are news when they are met again
	}
}

// OptOutsChanged says that the list of [Config.OptOuts] may answer otherwise than before: nothing
// is granted from here on that is on it, and the leases on hosts that are end with this step or the
// next ones. Part of a step.
func (o *Owner) OptOutsChanged() {
	o.reviewer.all(true)
	o.intake.known.clear()
}

// OptedOut lists hosts of this peer that have opted out by their records, up to limit. Between the
// inputs of a step, or between steps.
func (bk *books) OptedOut(limit int) (hosts []string) {
	bk.hosts.flush()
	bk.buf.Scan([]byte{ondisk.SpaceOptOut}, []byte{ondisk.SpaceOptOut + 1}, func(_, value []byte) bool {
		if len(value) > 1 {
			hosts = append(hosts, string(value[1:]))
		}
		return len(hosts) < limit
	})
	return hosts
}

// turnsAway says why a URL is not taken in, whatever its job says: an opt-out, or that its domain
// has as many hosts in the job as it may.
func (in *intake) turnsAway(js *jobState, url string) string {
	if why := in.cfg.OptOuts.URL(url); why != "" {
		return why
	}
	name := link.Host(url)
	h := in.hosts.find(name)
	if h != nil && h.rec.OptOut.On {
		return in.optedOut(h)
	}
	if h != nil {
		if hj := h.job(js); hj != nil {
			if hj.Tally.Counters().Admission.TurnsAway() {
				return in.domains.turnedAway(hj.Tally.Counters().Admission)
			}
			return ""
		}
	}
	if in.cfg.Admission && len(in.domains.crowded) > 0 && !domain.Plain(name) && !js.seeded(name) {
		for _, whole := range []string{domain.Of(name), portsOf(name)} {
			if v, full := in.domains.crowded[crowd{id: js.ID, domain: whole}]; full {
				return in.domains.turnedAway(v)
			}
		}
	}
	return ""
}

// turnedAway says why a job may not have a host on account of its domain's others.
func (d *domains) turnedAway(v domain.Verdict) string {
	switch v {
	case domain.Stale:
		return farm.FullText(d.cfg.Novelty)
	case domain.Ported:
		return fmt.Sprintf("the job has as many ports of its name as it may (%d)", domain.MaxPorts)
	default:
		return "its domain has as many hosts in the job as it may"
	}
}

// portsOf is what stands for all ports of a host's name among the domains that are full; no domain
// is called so. Empty for a host at its scheme's own port.
func portsOf(host string) string {
	if !domain.HasPort(host) {
		return ""
	}
	return domain.Name(host) + ":"
}

// Admission asks whether a job may have a host, of the owner of the host's registrable domain; it
// is answered with [Owner.Admitted].
type Admission struct {
	Job  job.ID // that asks
	Host string // that it wants
	// Said is what hosts of that domain which are owned here said since the last question, nil if
	// nothing is to be told.
	Said *[]farm.Said
}

// admissionEvery is how long after a question for an admission that had no answer it is asked
// again.
const admissionEvery = 5_000

// maxCrowded bounds the full domains in memory; hosts of one that was forgotten are asked for
// again.
const maxCrowded = 1 << 14

// crowd is a domain in a job.
type crowd struct {
	id     job.ID
	domain string
}

// admitted says whether a job may have a host as far as is known here.
func (d *domains) admitted(h *host, hj *hostJob) bool {
	return !d.cfg.Admission || hj.Tally.Counters().Admission == domain.Admitted || domain.Plain(h.rec.Name)
}

// ask asks what is yet to be asked of a host, and says when to look again.
func (d *domains) ask(h *host) (again int64) {
	if again = never; !d.cfg.Admission || h.frozen > 0 || !d.ring.Mine(h.key) {
		return again
	}
	for _, hj := range h.jobs {
		if hj.Tally.Counters().Admission != domain.Unknown || hj.Tally.Open() == 0 || d.admitted(h, hj) || d.optedOut(h) != "" {
			continue
		}
		if hj.askedAt == 0 || d.now-hj.askedAt >= admissionEvery {
			hj.askedAt = max(d.now, 1)
			d.ready.Admissions = append(d.ready.Admissions, Admission{hj.state.ID, h.rec.Name, d.take(hj.state, h.rec.Name)})
		}
		again = min(again, hj.askedAt+admissionEvery)
	}
	return again
}

// Admitted brings the answer to an Admission. Unknown means that there is none yet. Part of a step.
func (o *Owner) Admitted(a Admission, v domain.Verdict) {
	h := o.hosts.byName[a.Host]
	if h == nil || v == domain.Unknown {
		return
	}
	if v == domain.OptedOut {
		o.OptOut(a.Host, true, "with the whole domain")
		return
	}
	js := o.jobs.byID[a.Job]
	if js == nil {
		return
	}
	hj := h.job(js)
	if hj == nil || hj.Tally.Counters().Admission != domain.Unknown {
		return
	}
	if v.TurnsAway() {
		full := domain.Of(a.Host)
		if v == domain.Ported {
			full = portsOf(a.Host)
		}
		o.domains.crowds(crowd{id: js.ID, domain: full}, v)
		if js.seeded(a.Host) {
			v = domain.Admitted // the poster wants it, whatever others of its domain are
		}
	}
	hj.Admit(v)
}

// Stale says that a job gets no more hosts of a registrable domain, as the last ones brought
// nothing new. Those of which nothing was asked for yet end as well, when their turn comes. Part of
// a step.
func (o *Owner) Stale(id job.ID, registrable string) {
	if o.cfg.Novelty > 0 && o.jobs.byID[id] != nil {
		o.domains.crowds(crowd{id: id, domain: registrable}, domain.Stale)
	}
}

func (d *domains) crowds(c crowd, v domain.Verdict) {
	if d.crowded[c] == domain.Stale {
		return
	}
	if len(d.crowded) >= maxCrowded {
		clear(d.crowded)
	}
	d.crowded[c] = v
}
