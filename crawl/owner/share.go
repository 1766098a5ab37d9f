package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// A host has a share of what a job may take of sites and of this peer's disk. It is large from the
// start for what anybody may be, and grows with what the host gives.
const (
	// enoughOpen URLs that are ready, or that sitemaps which are out may bring (manyNamed each),
	// are enough: other sitemaps wait, namesWait ms at a time.
	enoughOpen = 5000
	manyNamed  = 1000
	namesWait  = 5000
	// A host whose own pages brought growsTo URLs has firstRequests requests, and namedRequests
	// more for each URL that a sitemap, a seed or another host named.
	growsTo       = 40_000
	firstRequests = 10_000
	namedRequests = 4
)

// spent is what a job has used up of its share of a host.
type spent uint8

const (
	spentNothing spent = iota
	spentRequests
	spentBytes
	spentGrowth
)

// spends says what a job has used up of its share of a host.
func (s *step) spends(hj *hostJob) spent {
	switch {
	case s.cfg.MaxRequests > 0 && hj.Tally.Requests() >= s.cfg.MaxRequests:
		return spentRequests
	case s.cfg.MaxHostBytes > 0 && hj.Tally.Bytes() >= s.cfg.MaxHostBytes:
		return spentBytes
	case hj.Tally.Counters().Exhausted && s.cfg.MaxRequests > 0:
		return spentGrowth
	default:
		return spentNothing
	}
}

// spentText says for people what was used up.
func (s *step) spentText(hj *hostJob) string {
	switch s.spends(hj) {
	case spentRequests:
		return fmt.Sprintf("the job has made as many requests to the host as it may (--max-requests-per-host %d)", s.cfg.MaxRequests)
	case spentBytes:
		return fmt.Sprintf("the job has as many bytes of the host as it may (--max-bytes-per-host %d)", s.cfg.MaxHostBytes)
	case spentGrowth:
		return fmt.Sprintf("the host's own pages led to over %d URLs, and %d requests are what one gets of which others name so few (--max-requests-per-host 0 lifts it)", growsTo, firstRequests)
	default:
		return ""
	}
}

// requestsLeft is how many more requests the job may make to the host: those made and those that
// may be under way count, with as many bytes as the host's pages had so far.
func (s *step) requestsLeft(hj *hostJob) int64 {
	left := int64(1 << 62)
	if s.spends(hj) != spentNothing {
		return 0
	}
	if s.cfg.MaxRequests > 0 {
		left = s.cfg.MaxRequests - hj.Tally.Requests() - hj.Tally.Out()
	}
	if mean := hj.Tally.Bytes() / max(hj.Tally.Requests(), 1); s.cfg.MaxHostBytes > 0 && mean > 0 {
		left = min(left, (s.cfg.MaxHostBytes-hj.Tally.Bytes())/mean-hj.Tally.Out()+1)
	}
	return left
}

// outgrows says whether a host's own pages lead to ever more URLs, and the job has made as many
// requests as those get of which nobody else speaks.
func (t *traps) outgrows(h *host, hj *hostJob) bool {
	if t.cfg.MaxRequests == 0 || hj.Tally.Requests() < firstRequests || hj.Tally.Counters().Exhausted {
		return false
	}
	s := t.of(h, hj)
	return s.Grown() > growsTo && hj.Tally.Requests() >= firstRequests+namedRequests*s.Named(hj.Tally.Accepted())
}

// sitemap says whether a sitemap is to be left, or to wait: it brings many URLs at once, and
// whether they are worth anything only their pages tell.
func (f *filler) sitemap(hj *hostJob, p *ondisk.Pending) (out notGranted, left bool) {
	if why := f.traps.of(f.h, hj).Sitemaps(f.cfg.Novelty); why != "" {
		return notGranted{Pending: *p, outcome: link.OutcomeTrap, why: why}, true
	}
	coming := hj.Tally.Ready()
	for _, it := range f.h.lease.out {
		if it.Kind == link.KindSitemap {
			coming += manyNamed
		}
	}
	if coming <= enoughOpen || f.cfg.Delay == 0 || p.Promised {
		return out, false
	}
	return notGranted{Pending: *p, due: max(f.now+namesWait, f.lastAt())}, true
}
