package owner

import (
	"encoding/binary"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
)

// Every key of the owner, on one page. POS is the first 16 bytes of the host's ring position, JOB an ID, numbers are big-endian.
//
//	'h' POS 'a'                     host record
//	'h' POS 'd' JOB due8 seq8       pending record that waits for another try until due (Unix ms)
//	'h' POS 'j' JOB                 counters of a job on the host
//	'h' POS 'l' JOB hash8           links of a page that is done, for jobs with a depth limit
//	'h' POS 'n' JOB                 what is known of the pages of a job, to tell a trap; see package novelty
//	'h' POS 'o' JOB hash8 depth4    outbox: links of page hash as met at depth, for other owners
//	'h' POS 'p' JOB depth4 seq8     pending record that is ready
//	'h' POS 'r' origin              robots state of one origin
//	'h' POS 'u' JOB hash8           URL entry; in a copy also what waits, see copies.go
//	'b' JOB                         what this peer drew of the job's budget
//	'c' JOB                         counters of the job on this peer
//	'f' JOB                         what is known of hosts that bring hosts; see package novelty
//	't'                             counters of this peer
//	'x' POS                         the host has opted out by its record; its name (derived)
//	'w' POS                         the host has pending URLs or an outbox (derived; found at start and after eviction); of one that rests and is not in memory, how long, see away.go
//
// Values begin with the version of their form. Those of 'a', 'j', 'l', 'o', 'r' under a host, and of 'b', 'c' and 't', are messages of package record behind
// it; those of URLs ('d', 'p', 'u') and what follows from others ('w', 'x') are values in their order. See docs/decisions/27-records-as-messages.md.
//
// Everything under 'h' moves with the host and is what replicas keep, see [Copied]: all of it is written by Store.Update, and a host that leaves by one DeleteRange.
// The rest is this peer's own and not to be copied: 'c', 't', 'w' and 'x' follow from the hosts, 'b' is between this peer and the job's owner, 'f' what
// this peer saw.
const (
	spaceHost   = 'h'
	spaceBudget = 'b'
	spaceJob    = 'c'
	spaceFarm   = 'f'
	spaceTotals = 't'
	spaceWork   = 'w'
	spaceOptOut = 'x'

	kindHost     = 'a'
	kindDelayed  = 'd'
	kindCounters = 'j'
	kindOutlinks = 'l'
	kindNovelty  = 'n'
	kindOutbox   = 'o'
	kindReady    = 'p'
	kindRobots   = 'r'
	kindEntry    = 'u'
)

// hostPrefix is how all keys of a host begin; with its kinds, of one kind.
func hostPrefix(pos ring.Pos, kind ...byte) []byte {
	k := make([]byte, 0, 1+ring.PosSize+1+job.IDSize+16)
	k = append(append(k, spaceHost), pos[:]...)
	return append(k, kind...)
}

func jobPrefix(pos ring.Pos, kind byte, id job.ID) []byte {
	return append(hostPrefix(pos, kind), id[:]...)
}

func hostKey(pos ring.Pos) []byte { return hostPrefix(pos, kindHost) }

func countersKey(pos ring.Pos, id job.ID) []byte { return jobPrefix(pos, kindCounters, id) }

func noveltyKey(pos ring.Pos, id job.ID) []byte { return jobPrefix(pos, kindNovelty, id) }

func entryKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(jobPrefix(pos, kindEntry, id), hash)
}

func outlinksKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(jobPrefix(pos, kindOutlinks, id), hash)
}

func outboxKey(pos ring.Pos, id job.ID, hash uint64, depth uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(jobPrefix(pos, kindOutbox, id), hash), depth)
}

func robotsKey(pos ring.Pos, origin string) []byte {
	return append(hostPrefix(pos, kindRobots), origin...)
}

func workKey(pos ring.Pos) []byte { return append([]byte{spaceWork}, pos[:]...) }

func optOutKey(pos ring.Pos) []byte { return append([]byte{spaceOptOut}, pos[:]...) }

func jobKey(space byte, id job.ID) []byte { return append([]byte{space}, id[:]...) }

// place is where a pending record lies: among the ready ones by depth, or among the delayed ones by due time.
type place struct {
	depth uint32
	due   int64 // Unix ms; 0 = ready
	seq   uint64
}

func (p place) key(pos ring.Pos, id job.ID) []byte {
	if p.due > 0 {
		k := binary.BigEndian.AppendUint64(jobPrefix(pos, kindDelayed, id), uint64(p.due))
		return binary.BigEndian.AppendUint64(k, p.seq)
	}
	k := binary.BigEndian.AppendUint32(jobPrefix(pos, kindReady, id), p.depth)
	return binary.BigEndian.AppendUint64(k, p.seq)
}

// before is the order of ready records.
func (p place) before(q place) bool {
	if p.depth != q.depth {
		return p.depth < q.depth
	}
	return p.seq < q.seq
}

// readyPlace and delayedPlace read the part of a key behind jobPrefix.
func readyPlace(tail []byte) (place, bool) {
	if len(tail) != 12 {
		return place{}, false
	}
	return place{depth: binary.BigEndian.Uint32(tail), seq: binary.BigEndian.Uint64(tail[4:])}, true
}

func delayedPlace(tail []byte) (place, bool) {
	if len(tail) != 16 {
		return place{}, false
	}
	due := binary.BigEndian.Uint64(tail)
	if due == 0 || due > maxTime {
		return place{}, false
	}
	return place{due: int64(due), seq: binary.BigEndian.Uint64(tail[8:])}, true
}

// placeIn reads the part of a pending record's key behind jobPrefix.
func placeIn(kind byte, tail []byte) (place, bool) {
	if kind == kindDelayed {
		return delayedPlace(tail)
	}
	return readyPlace(tail)
}

const jobPrefixLen = 1 + ring.PosSize + 1 + job.IDSize
