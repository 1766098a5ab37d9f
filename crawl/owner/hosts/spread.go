package hosts

import (
	"hash/maphash"
	"slices"

	"github.com/apoidea/apoidea/crawl/domain"
)

// spread limits the new hosts of a job that link farms bring, on this peer and in memory alone.
type spread struct {
	row     int             // hosts in a row that led to new hosts and to no known one
	last    [maxLast]uint64 // of them, those counted last
	domains map[string]*domainHosts
}

// domainHosts counts the hosts of a registrable domain.
type domainHosts struct {
	own     int      // new hosts of the domain that its own hosts brought
	linkers []uint64 // hosts of other domains that link to it
}

const (
	// maxRow hosts in a row that lead to new hosts and to no known one bring no more.
	maxRow  = 400
	maxLast = 64
	// A domain's own hosts bring ownHosts new hosts of the domain, and linkedHosts more for each host
	// of another domain that links to it, of maxLinkers.
	ownHosts    = 1000
	linkedHosts = 100
	maxLinkers  = 64
	maxSpread   = 1 << 12 // domains
)

var spreadSeed = maphash.MakeSeed()

// Leads counts a page of a host that links to new hosts, home if also to a known one other than its
// own; false: it brings none of them.
func (sp *spread) Leads(host string, home bool) bool {
	if home {
		sp.row = 0
		return true
	}
	if sp.row >= maxRow {
		return false
	}
	sum := maphash.String(spreadSeed, host)
	if slices.Contains(sp.last[:], sum) {
		return true
	}
	sp.last[sp.row%maxLast] = sum
	sp.row++
	return true
}

// Brings reports whether a host may bring a new host, and counts it.
func (sp *spread) Brings(from, host string) bool {
	of := domain.Of(host)
	k := sp.domains[of]
	if k == nil {
		if sp.domains == nil || len(sp.domains) >= maxSpread {
			sp.domains = make(map[string]*domainHosts)
		}
		k = new(domainHosts)
		sp.domains[of] = k
	}
	if domain.Of(from) == of {
		k.own++
		return k.own <= ownHosts+linkedHosts*len(k.linkers)
	}
	sum := maphash.String(spreadSeed, from)
	if slices.Contains(k.linkers, sum) {
		return true
	}
	if len(k.linkers) < maxLinkers {
		k.linkers = append(k.linkers, sum)
	}
	return true
}
