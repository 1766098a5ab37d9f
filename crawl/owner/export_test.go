package owner

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
)

// Canonical says what a record tells, without what differs between owners that know the same: numbers of arrival, versions, who holds a lease, what
// was promised of a budget, whether a host is down, and links that are yet to be emitted anew. Name is empty if nothing is left.
func Canonical(key, value []byte) (name, text string, err error) {
	kind, tail := key[1+ring.PosSize], key[1+ring.PosSize+1:]
	name = fmt.Sprintf("%x %c ", key[1:1+ring.PosSize], kind)
	if kind != kindHost && kind != kindRobots {
		name += fmt.Sprintf("%s ", job.ID(tail))
		tail = tail[job.IDSize:]
	}
	switch kind {
	case kindHost:
		r, err := decodeHost(value)
		r.version, r.seq, r.outbox, r.worker = 0, 0, 0, ""
		return name, fmt.Sprintf("%+v", r), err
	case kindReady, kindDelayed:
		at, _ := readyPlace(tail)
		if kind == kindDelayed {
			at, _ = delayedPlace(tail)
		}
		p, err := decodePending(at, value)
		p.seq, p.promised, p.promisedBytes, p.foreign = 0, false, 0, false
		return name + fmt.Sprintf("%x", p.hash), fmt.Sprintf("%+v", p), err
	case kindEntry:
		n, err := decodeEntry(value)
		if !n.done {
			return "", "", err
		}
		return name + fmt.Sprintf("%x", tail), fmt.Sprintf("%+v", n.final), err
	case kindOutlinks, kindOutbox:
		list, err := decodeLinks(value)
		if len(list.links) == 0 {
			return "", "", err
		}
		return name + fmt.Sprintf("%x", tail), fmt.Sprint(sorted(list.links)), err
	case kindCounters:
		c, err := decodeCounters(value)
		c.promised, c.down, c.downUntil = 0, 0, 0
		return name, fmt.Sprintf("%+v", c), err
	default:
		return name + string(tail), fmt.Sprintf("%x", value), nil
	}
}

// Resters is how many hosts each status looks at.
func Resters(o *Owner) int { return len(o.rests.list) }
