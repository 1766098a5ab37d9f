package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// OptOut records that a host has opted out, or with on false that the opt-out was withdrawn, and
// reports whether that is a change. Why is for display. Nothing more is granted of the host, its
// worker loses the lease with its next message, and pending URLs end as opted out. Part of a step.
func (o *Owner) OptOut(name string, on bool, why string) (changed bool) {
	h := o.hosts.Find(name)
	if h == nil && on {
		h = o.hosts.Open(name)
	}
	if h == nil || h.Rec.OptOut.On == on && !h.Rec.OptOut.Unproved {
		return false
	}
	h.Rec.Opts(on, o.Now, why)
	o.reviewer.optOutChanged(h)
	return true
}

// optOutChanged reevaluates a host.
func (rv *reviewer) optOutChanged(h *hosts.Host) {
	rv.hosts.Touched(h)
	if rv.WhyOptedOut(h) != "" || h.Rec.OptOut.Held() {
		rv.placer.End(h)
		if h.Lease != nil && h.Frozen == 0 {
			// As after a failure of the whole host: its worker may be about to send a request.
			rv.leases.End(h, leases.Released, h.Lease.Expires)
		}
	} else {
		rv.intake.Known.Clear() // rejected links to the host must be processed when found again
	}
}

// OptOutsChanged applies a change of the list [Config.OptOuts]: listed URLs are no longer granted,
// and the leases of listed hosts end in this step or the next ones. Part of a step.
func (o *Owner) OptOutsChanged() {
	o.reviewer.all(true)
	o.intake.Known.Clear()
	for _, js := range o.jobs.Order {
		if js.Visits() {
			js.Rescan() // hosts that are not in memory may have visits again
		}
	}
}

// OptedOut returns up to limit hosts of this peer with an opt-out record. Between the inputs of a
// step, or between steps.
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

// Claim is an opt-out of a host, or its withdrawal, in a record of another owner. After a check at
// the site, Owner.OptOut ends it.
type Claim struct {
	Host string
	Out  bool   // it is an opt-out
	Why  string // its subject, unless the record is false
}

// NextClaim returns the first claim behind that of a host, in ring order; false: there is none.
// Between the inputs of a step, or between steps.
func (bk *books) NextClaim(behind string) (c Claim, ok bool) {
	bk.hosts.Flush()
	from := []byte{ondisk.SpaceClaim}
	if behind != "" {
		from = append(ondisk.ClaimKey(ring.PosOf(ring.HostKey(behind))), 0)
	}
	bk.Buf.Scan(from, []byte{ondisk.SpaceClaim + 1}, func(_, value []byte) bool {
		c.Host = string(value[1:])
		return false
	})
	h := bk.hosts.Find(c.Host)
	if c.Host == "" || h == nil {
		return c, false
	}
	return Claim{c.Host, h.Rec.OptOut.On, h.Rec.OptOut.Why}, true
}

// Admitted applies the reply to an Admission; Unknown means that there is none yet. Part of a step.
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
		o.domains.SetFull(hosts.DomainJob{ID: js.ID, Domain: full}, v)
		if js.Seeded(a.Host) {
			v = domain.Admitted // explicitly requested by the poster, regardless of its domain
		}
	}
	hj.Admit(v)
}
