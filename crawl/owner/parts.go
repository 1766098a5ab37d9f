package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
)

// parts are what an owner consists of. Each knows the ones that it was made with, all of which
// stand above it here, and no other.
type parts struct {
	*step
	jobs     *jobTable
	rests    *rests
	domains  *domains
	traps    *traps
	agenda   *agenda
	hosts    *hostTable
	outgoing *outgoing
	intake   *intake
	emitter  *emitter
	placer   *placer
	leases   *leases
	reviewer *reviewer
	granter  *granter
	outcomes *outcomes
	importer *importer
	remover  *remover
	purger   *purger
	visits   *visits
}

func newParts(s *step) parts {
	p := parts{step: s}
	p.jobs = newJobTable(s)
	p.rests = &rests{step: s, away: make(away)}
	p.domains = &domains{step: s, crowded: make(map[crowd]domain.Verdict), kin: make(map[crowd][]farm.Said)}
	p.traps = &traps{step: s}
	p.agenda = &agenda{step: s, jobs: p.jobs, domains: p.domains, rests: p.rests, searches: searches{most: s.cfg.MaxPlacing}}
	p.hosts = newHostTable(s, p.jobs, p.agenda, p.rests, p.traps)
	p.outgoing = &outgoing{step: s, jobs: p.jobs, hosts: p.hosts, box: outbox.New(s.cfg.MaxOutbox)}
	p.intake = &intake{
		step: s, hosts: p.hosts, domains: p.domains, outgoing: p.outgoing, known: newDepths(s.cfg.MaxKnown),
	}
	p.emitter = &emitter{
		step: s, jobs: p.jobs, hosts: p.hosts, traps: p.traps, intake: p.intake, outgoing: p.outgoing,
		sent: newDepths(s.cfg.MaxKnown), met: newDepths(s.cfg.MaxKnown), page: &pageHosts{},
	}
	p.placer = &placer{step: s, agenda: p.agenda, hosts: p.hosts, sessions: make(map[string]*session)}
	p.leases = &leases{step: s, jobs: p.jobs, hosts: p.hosts, agenda: p.agenda, placer: p.placer}
	p.reviewer = &reviewer{step: s, hosts: p.hosts, agenda: p.agenda, placer: p.placer, leases: p.leases, intake: p.intake}
	p.granter = &granter{step: s, jobs: p.jobs, agenda: p.agenda, traps: p.traps, leases: p.leases}
	p.outcomes = &outcomes{
		step: s, jobs: p.jobs, hosts: p.hosts, traps: p.traps, domains: p.domains, leases: p.leases, emitter: p.emitter,
	}
	p.importer = &importer{
		step: s, jobs: p.jobs, hosts: p.hosts, outgoing: p.outgoing, leases: p.leases, reviewer: p.reviewer,
	}
	p.remover = &remover{step: s, jobs: p.jobs, hosts: p.hosts, placer: p.placer, leases: p.leases, outgoing: p.outgoing}
	p.purger = &purger{step: s, hosts: p.hosts, agenda: p.agenda, traps: p.traps, domains: p.domains}
	p.visits = &visits{step: s, jobs: p.jobs, hosts: p.hosts, agenda: p.agenda, leases: p.leases, placer: p.placer, granter: p.granter}
	return p
}
