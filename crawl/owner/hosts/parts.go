package hosts

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/dht/ring"
)

// Parts holds the components of this package. Each depends only on those above it.
type Parts struct {
	Jobs    *JobTable
	Rests   *Rests
	Domains *Domains
	Traps   *Traps
	Agenda  *Agenda
	Table   *Table
}

// New returns the parts, without any host.
func New(s *Step) *Parts {
	p := &Parts{
		Jobs:    &JobTable{Step: s, Away: JobState{Job: new(ledger.Job)}, ByID: make(map[job.ID]*JobState), asked: make(map[job.ID]int64)},
		Rests:   &Rests{Step: s, Away: make(Away)},
		Domains: &Domains{Step: s, Full: make(map[DomainJob]domain.Verdict)},
		Traps:   &Traps{Step: s},
	}
	p.Agenda = &Agenda{Step: s, jobs: p.Jobs, domains: p.Domains, Searches: Searches{most: s.Cfg.MaxPlacing, refused: max(s.Cfg.MaxPlacing-leastPlacing, 0)}}
	p.Table = &Table{
		Step: s, jobs: p.Jobs, agenda: p.Agenda, rests: p.Rests, traps: p.Traps,
		ByName: make(map[string]*Host), ByPos: make(map[ring.Pos]*Host),
	}
	return p
}
