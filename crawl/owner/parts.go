package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
)

// parts holds the components of an owner. Each depends only on those above it that were passed to
// its constructor.
type parts struct {
	*hosts.Step
	jobs     *hosts.JobTable
	rests    *hosts.Rests
	domains  *hosts.Domains
	traps    *hosts.Traps
	agenda   *hosts.Agenda
	hosts    *hosts.Table
	outgoing *links.Outgoing
	intake   *links.Intake
	emitter  *links.Emitter
	placer   *leases.Placer
	leases   *leases.Leases
	reviewer *reviewer
	granter  *leases.Granter
	outcomes *outcomes
	importer *importer
	remover  *remover
	purger   *purger
	visits   *visits
}

func newParts(s *hosts.Step) parts {
	t := hosts.New(s)
	l, g := links.New(t), leases.New(t)
	p := parts{
		Step: s, jobs: t.Jobs, rests: t.Rests, domains: t.Domains, traps: t.Traps, agenda: t.Agenda, hosts: t.Table,
		outgoing: l.Outgoing, intake: l.Intake, emitter: l.Emitter, placer: g.Placer, leases: g.Leases, granter: g.Granter,
	}
	p.reviewer = &reviewer{Step: s, hosts: p.hosts, agenda: p.agenda, placer: p.placer, leases: p.leases, intake: p.intake}
	p.outcomes = &outcomes{
		Step: s, jobs: p.jobs, hosts: p.hosts, traps: p.traps, domains: p.domains, leases: p.leases, emitter: p.emitter,
	}
	p.importer = &importer{
		Step: s, jobs: p.jobs, hosts: p.hosts, outgoing: p.outgoing, leases: p.leases, reviewer: p.reviewer,
	}
	p.remover = &remover{Step: s, jobs: p.jobs, hosts: p.hosts, placer: p.placer, leases: p.leases, outgoing: p.outgoing}
	p.purger = &purger{Step: s, hosts: p.hosts, agenda: p.agenda, traps: p.traps, domains: p.domains}
	p.visits = &visits{Step: s, jobs: p.jobs, hosts: p.hosts, agenda: p.agenda, leases: p.leases, placer: p.placer, granter: p.granter}
	return p
}
