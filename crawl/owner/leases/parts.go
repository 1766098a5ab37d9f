package leases

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
)

// Parts holds the components of this package.
type Parts struct {
	Placer  *Placer
	Leases  *Leases
	Granter *Granter
}

// New returns the parts over a table of hosts, without any worker.
func New(t *hosts.Parts) *Parts {
	s := t.Table.Step
	p := &Parts{Placer: &Placer{Step: s, agenda: t.Agenda, hosts: t.Table, checks: t.Checks, Sessions: make(map[string]*hosts.Session)}}
	p.Leases = &Leases{Step: s, jobs: t.Jobs, hosts: t.Table, agenda: t.Agenda, placer: p.Placer, checks: t.Checks}
	p.Granter = &Granter{Step: s, jobs: t.Jobs, agenda: t.Agenda, traps: t.Traps, leases: p.Leases}
	return p
}
