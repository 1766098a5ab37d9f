package ondisk

import (
	"encoding/binary"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
)

// Every key of the owner, on one page. POS is the first 16 bytes of the host's ring position, JOB
// an ID, numbers are big-endian.
//
//	'h' POS 'a'                     host record
//	'h' POS 'd' JOB due8 seq8       pending record that waits for another try until due (Unix ms)
//	'h' POS 'j' JOB                 counters of a job on the host
//	'h' POS 'l' JOB hash8           links of a page that is done, for jobs with a depth limit
//	'h' POS 'n' JOB                 what is known of the pages of a job, to tell a trap; see package novelty
//	'h' POS 'o' JOB hash8 depth4    outbox: links of page hash as met at depth, for other owners
//	'h' POS 'p' JOB rank4 seq8      pending record that is ready; its rank is its depth unless the job orders its URLs otherwise
//	'h' POS 'r' origin              robots state of one origin
//	'h' POS 'u' JOB hash8           URL entry; in a copy also what waits, see copies.go
//	'b' JOB                         what this peer drew of the job's budget
//	'c' JOB                         counters of the job on this peer
//	'f' JOB                         what is known of hosts that bring hosts; see package novelty
//	't'                             counters of this peer
//	'x' POS                         the host has opted out by its record; its name (derived)
//	'w' POS                         the host has pending URLs or an outbox (derived; found at start and after eviction); of one that rests and is not in memory, how long, see package owner
//
// Values begin with [Format]. Those of 'a', 'j', 'l', 'o', 'r' under a host, and
// of 'b', 'c' and 't', are messages of package record behind it; those of URLs ('d', 'p', 'u') and
// what follows from others ('w', 'x') are values in their order. See
// docs/decisions/27-records-as-messages.md.
//
// Everything under 'h' moves with the host and is what replicas keep, see [Copied]: all of it is
// written by Store.Update, and a host that leaves by one DeleteRange. The rest is this peer's own
// and not to be copied: 'c', 't', 'w' and 'x' follow from the hosts, 'b' is between this peer and
// the job's owner, 'f' what this peer saw.
const (
	SpaceHost   = 'h'
	SpaceBudget = 'b'
	SpaceJob    = 'c'
	SpaceFarm   = 'f'
	SpaceTotals = 't'
	SpaceWork   = 'w'
	SpaceOptOut = 'x'

	KindHost     = 'a'
	KindDelayed  = 'd'
	KindCounters = 'j'
	KindOutlinks = 'l'
	KindNovelty  = 'n'
	KindOutbox   = 'o'
	KindReady    = 'p'
	KindRobots   = 'r'
	KindEntry    = 'u'
)

// HostPrefix is how all keys of a host begin; with its kinds, of one kind.
func HostPrefix(pos ring.Pos, kind ...byte) []byte {
	k := make([]byte, 0, 1+ring.PosSize+1+job.IDSize+16)
	k = append(append(k, SpaceHost), pos[:]...)
	return append(k, kind...)
}

// JobPrefix is how all keys of one kind begin that a host has of a job.
func JobPrefix(pos ring.Pos, kind byte, id job.ID) []byte {
	return append(HostPrefix(pos, kind), id[:]...)
}

// HostKey is the key of a host's record.
func HostKey(pos ring.Pos) []byte { return HostPrefix(pos, KindHost) }

// CountersKey is the key of the counters of a job on a host.
func CountersKey(pos ring.Pos, id job.ID) []byte { return JobPrefix(pos, KindCounters, id) }

// NoveltyKey is the key of what is known of the pages of a job on a host.
func NoveltyKey(pos ring.Pos, id job.ID) []byte { return JobPrefix(pos, KindNovelty, id) }

// EntryKey is the key of a URL.
func EntryKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(JobPrefix(pos, KindEntry, id), hash)
}

// OutlinksKey is the key of the links of a page that is done.
func OutlinksKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(JobPrefix(pos, KindOutlinks, id), hash)
}

// OutboxKey is the key of an entry of the outbox: links of a page as it was met at a depth.
func OutboxKey(pos ring.Pos, id job.ID, hash uint64, depth uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(JobPrefix(pos, KindOutbox, id), hash), depth)
}

// RobotsKey is the key of the robots.txt of one of a host's origins.
func RobotsKey(pos ring.Pos, origin string) []byte {
	return append(HostPrefix(pos, KindRobots), origin...)
}

// WorkKey is the key that a host with work has in the index of those.
func WorkKey(pos ring.Pos) []byte { return append([]byte{SpaceWork}, pos[:]...) }

// OptOutKey is the key that a host which has opted out has in the index of those.
func OptOutKey(pos ring.Pos) []byte { return append([]byte{SpaceOptOut}, pos[:]...) }

// JobKey is the key of what this peer keeps of a job in one of its spaces.
func JobKey(space byte, id job.ID) []byte { return append([]byte{space}, id[:]...) }

// Spot is where a pending record lies: among the ready ones by rank, or among the delayed ones by
// due time.
type Spot struct {
	Depth uint32 // links from a seed; its key does not tell
	Rank  uint32 // among those that are ready, the lower first; 0: by depth
	Due   int64  // Unix ms; 0 = ready
	Seq   uint64 // number of the record on its host
}

// Place is the rank of a ready record, or the depth that stands for it.
func (p Spot) Place() uint32 {
	if p.Rank > 0 {
		return p.Rank
	}
	return p.Depth
}

// at is the place that a key tells of, for a record of a depth.
func (p Spot) at(depth uint32) Spot {
	if p.Rank == depth {
		p.Rank = 0
	}
	p.Depth = depth
	return p
}

// Key is the key of the pending record.
func (p Spot) Key(pos ring.Pos, id job.ID) []byte {
	if p.Due > 0 {
		k := binary.BigEndian.AppendUint64(JobPrefix(pos, KindDelayed, id), uint64(p.Due))
		return binary.BigEndian.AppendUint64(k, p.Seq)
	}
	k := binary.BigEndian.AppendUint32(JobPrefix(pos, KindReady, id), p.Place())
	return binary.BigEndian.AppendUint64(k, p.Seq)
}

// Before is the order of ready records.
func (p Spot) Before(q Spot) bool {
	if p.Place() != q.Place() {
		return p.Place() < q.Place()
	}
	return p.Seq < q.Seq
}

func readySpot(tail []byte) (Spot, bool) {
	if len(tail) != 12 {
		return Spot{}, false
	}
	return Spot{Rank: binary.BigEndian.Uint32(tail), Seq: binary.BigEndian.Uint64(tail[4:])}, true
}

// DelayedSpot is SpotIn for one that waits for another try.
func DelayedSpot(tail []byte) (Spot, bool) {
	if len(tail) != 16 {
		return Spot{}, false
	}
	due := binary.BigEndian.Uint64(tail)
	if due == 0 || due > MaxTime {
		return Spot{}, false
	}
	return Spot{Due: int64(due), Seq: binary.BigEndian.Uint64(tail[8:])}, true
}

// HashIn reads a hash, which is the part of the key of an entry, or of a page's links, behind
// JobPrefix.
func HashIn(tail []byte) (hash uint64, ok bool) {
	if len(tail) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(tail), true
}

// PageIn reads the part of an outbox entry's key behind JobPrefix: the page and its depth.
func PageIn(tail []byte) (hash uint64, depth uint32, ok bool) {
	if len(tail) != 12 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(tail), binary.BigEndian.Uint32(tail[8:]), true
}

// JobIn is the job that a key names which is as long as JobPrefixLen at least.
func JobIn(key []byte) job.ID { return job.ID(key[1+ring.PosSize+1:]) }

// SpotIn reads the part of a pending record's key behind JobPrefix.
func SpotIn(kind byte, tail []byte) (Spot, bool) {
	if kind == KindDelayed {
		return DelayedSpot(tail)
	}
	return readySpot(tail)
}

// JobPrefixLen is how long the part of a key is that JobPrefix makes.
const JobPrefixLen = 1 + ring.PosSize + 1 + job.IDSize
