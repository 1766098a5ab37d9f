package links

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
)

// Parts holds the components of this package.
type Parts struct {
	Outgoing *Outgoing
	Intake   *Intake
	Emitter  *Emitter
}

// New returns the parts over a table of hosts, without any link.
func New(t *hosts.Parts) *Parts {
	s := t.Table.Step
	p := &Parts{Outgoing: &Outgoing{Step: s, jobs: t.Jobs, hosts: t.Table, Box: NewOutbox(s.Cfg.MaxOutbox)}}
	p.Intake = &Intake{Step: s, hosts: t.Table, domains: t.Domains, Known: newDepths(s.Cfg.MaxKnown)}
	p.Emitter = &Emitter{
		Step: s, jobs: t.Jobs, hosts: t.Table, traps: t.Traps, intake: p.Intake, outgoing: p.Outgoing,
		Sent: newDepths(s.Cfg.MaxKnown), met: newDepths(s.Cfg.MaxKnown), Page: &PageHosts{},
	}
	return p
}
