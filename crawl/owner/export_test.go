package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// Canonical says what a record tells, without what differs between owners that know the same:
// numbers of arrival, versions, who holds a lease, what was promised of a budget, and whether a
// host is down. Name is empty if nothing is left.
func Canonical(key, value []byte) (name, text string, err error) {
	kind, tail := key[1+ring.PosSize], key[1+ring.PosSize+1:]
	name = fmt.Sprintf("%x %c ", key[1:1+ring.PosSize], kind)
	if kind != ondisk.KindHost && kind != ondisk.KindRobots {
		name += fmt.Sprintf("%s ", job.ID(tail))
		tail = tail[job.IDSize:]
	}
	switch kind {
	case ondisk.KindHost:
		r, err := ondisk.DecodeHost(value)
		r.Version, r.Seq, r.Outbox, r.Worker = 0, 0, 0, ""
		return name, fmt.Sprintf("%+v", r), err
	case ondisk.KindReady, ondisk.KindDelayed:
		at, _ := ondisk.SpotIn(kind, tail)
		p, err := ondisk.DecodePending(at, value)
		p.Seq, p.Promised, p.PromisedBytes, p.Foreign = 0, false, 0, false
		return name + fmt.Sprintf("%x", p.Hash), fmt.Sprintf("%+v", p), err
	case ondisk.KindEntry:
		n, err := ondisk.DecodeEntry(value)
		if !n.Done {
			return "", "", err
		}
		return name + fmt.Sprintf("%x", tail), fmt.Sprintf("%+v", n.Final), err
	case ondisk.KindOutbox:
		list, err := ondisk.DecodeLinks(value)
		if len(list.Links) == 0 {
			return "", "", err
		}
		return name + fmt.Sprintf("%x", tail), fmt.Sprintf("%v of %+v", ondisk.Sorted(list.Links), list.Source), err
	case ondisk.KindCounters:
		c, err := ondisk.DecodeCounters(value)
		c.Promised, c.Down, c.DownUntil = 0, 0, 0
		return name, fmt.Sprintf("%+v", c), err
	default:
		return name + string(tail), fmt.Sprintf("%x", value), nil
	}
}

// IdleJobs is how many jobs are in memory before some are forgotten, JobsInMemory how many there
// are.
const IdleJobs = hosts.IdleJobs

// JobsInMemory is how many jobs an owner has in memory.
func JobsInMemory(o *Owner) int { return len(o.jobs.ByID) }
