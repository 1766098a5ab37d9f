package ondisk

import (
	"encoding/binary"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
)

// Keys of an owner. POS is the first 16 bytes of the host's ring position, JOB a job ID, and
// numbers are big-endian.
//
//	'h' POS 'a'                     host record
//	'h' POS 'd' JOB due8 seq8       pending record that waits for a retry until due (Unix ms)
//	'h' POS 'j' JOB                 counters of a job on the host
//	'h' POS 'n' JOB                 trap state of a job's pages; see package trap
//	'h' POS 'o' JOB hash8           outbox: links of page hash for other owners
//	'h' POS 'p' JOB rank4 seq8      pending record that is ready; its rank is its depth unless the job orders its URLs otherwise
//	'h' POS 'r' origin              robots.txt state of one origin
//	'h' POS 's' JOB hash8           source: a page that led to URLs of the host, by the hash of the record
//	'h' POS 'u' JOB hash8           URL entry; in a copy also the pending record, see copies.go
//	'h' POS 'v' JOB due4 hash8      visit: a URL with an outcome that is fetched again when due (Unix s; derived, the entry has it)
//	'b' JOB                         this peer's account of the job's budget
//	'c' JOB                         counters of the job on this peer
//	't'                             counters of this peer
//	'x' POS                         the host has opted out by its record; its name (derived)
//	'y' POS                         an opt-out of the host, or its withdrawal, is unproved; its name (derived)
//	'v' due4 POS                    when the first visit of a host is due (derived)
//	'w' POS                         the host has pending URLs or an outbox (derived; read at start and after eviction); for an evicted host that waits, until when, see package hosts
//
// Values begin with [Format]. Under a host those of 'a', 'j', 'o' and 'r', and those of 'b',
// 'c' and 't', are messages of package record after it; those of URLs ('d', 'p', 'u') and sources
// ('s') and the derived ones ('w', 'x', 'y') are values in sequence. See
// docs/decisions/27-records-as-messages.md.
//
// Everything under 'h' is handed off with the host and is replicated, see [Copied]: all of it is
// written by Store.Update, and a host is removed by one DeleteRange. Only 'v' is not, since the
// entries have the due times. The rest is local and must not be copied: 'c', 't', 'v', 'w', 'x' and
// 'y' are derived from the hosts, 'b' is shared with the job's owner only, and 'f' holds
// observations of this peer.
const (
	SpaceHost   = 'h'
	SpaceBudget = 'b'
	SpaceJob    = 'c'
	SpaceTotals = 't'
	SpaceWork   = 'w'
	SpaceOptOut = 'x'
	SpaceClaim  = 'y'
	SpaceVisit  = 'v'
	SpaceTrust  = 'p'

	KindHost     = 'a'
	KindDelayed  = 'd'
	KindCounters = 'j'
	KindTrap     = 'n'
	KindOutbox   = 'o'
	KindReady    = 'p'
	KindRobots   = 'r'
	KindSource   = 's'
	KindEntry    = 'u'
	KindVisit    = 'v'
)

// HostPrefix returns the prefix of a host's keys, or of those of a kind.
func HostPrefix(pos ring.Pos, kind ...byte) []byte {
	k := make([]byte, 0, 1+ring.PosSize+1+job.IDSize+16)
	k = append(append(k, SpaceHost), pos[:]...)
	return append(k, kind...)
}

// JobPrefix returns the prefix of a host's keys of one kind and job.
func JobPrefix(pos ring.Pos, kind byte, id job.ID) []byte {
	return append(HostPrefix(pos, kind), id[:]...)
}

// HostKey returns the key of a host record.
func HostKey(pos ring.Pos) []byte { return HostPrefix(pos, KindHost) }

// CountersKey returns the key of the counters of a job on a host.
func CountersKey(pos ring.Pos, id job.ID) []byte { return JobPrefix(pos, KindCounters, id) }

// TrapKey returns the key of the trap state of a job on a host.
func TrapKey(pos ring.Pos, id job.ID) []byte { return JobPrefix(pos, KindTrap, id) }

// EntryKey returns the key of a URL entry.
func EntryKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(JobPrefix(pos, KindEntry, id), hash)
}

// OutboxKey returns the key of an outbox entry: links of a page.
func OutboxKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(JobPrefix(pos, KindOutbox, id), hash)
}

// SourceKey returns the key of a source.
func SourceKey(pos ring.Pos, id job.ID, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(JobPrefix(pos, KindSource, id), hash)
}

// RobotsKey returns the key of the robots.txt state of one of a host's origins.
func RobotsKey(pos ring.Pos, origin string) []byte {
	return append(HostPrefix(pos, KindRobots), origin...)
}

// VisitKey returns the key of a visit that is due at a time in Unix seconds.
func VisitKey(pos ring.Pos, id job.ID, due uint32, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(JobPrefix(pos, KindVisit, id), due), hash)
}

// VisitIn decodes the part of a visit's key behind JobPrefix.
func VisitIn(tail []byte) (due uint32, hash uint64, ok bool) {
	if len(tail) != 12 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(tail), binary.BigEndian.Uint64(tail[4:]), true
}

// VisitsKey returns the key of a host in the index of first visits.
func VisitsKey(due uint32, pos ring.Pos) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{SpaceVisit}, due), pos[:]...)
}

// TrustKey returns the key of what is known of a worker.
func TrustKey(worker string) []byte { return append([]byte{SpaceTrust}, worker...) }

// WorkKey returns the key of a host in the index of hosts with work.
func WorkKey(pos ring.Pos) []byte { return append([]byte{SpaceWork}, pos[:]...) }

// ClaimKey returns the key of a host in the index of hosts with an unproved opt-out or withdrawal.
func ClaimKey(pos ring.Pos) []byte { return append([]byte{SpaceClaim}, pos[:]...) }

// OptOutKey returns the key of a host in the index of hosts that have opted out.
func OptOutKey(pos ring.Pos) []byte { return append([]byte{SpaceOptOut}, pos[:]...) }

// JobKey returns the key of a job's record in one of this peer's spaces.
func JobKey(space byte, id job.ID) []byte { return append([]byte{space}, id[:]...) }

// Spot is the position of a pending record: among the ready ones by rank, or among the delayed ones
// by due time.
type Spot struct {
	Depth uint32 // links from a seed; not part of the key
	Rank  uint32 // order of ready records, lower first; 0: by depth
	Due   int64  // Unix ms; 0 = ready
	Seq   uint64 // number of the record on its host
}

// Place returns the rank of a ready record, or its depth if it has no rank.
func (p Spot) Place() uint32 {
	if p.Rank > 0 {
		return p.Rank
	}
	return p.Depth
}

// at returns the position of a key, for a record of a depth.
func (p Spot) at(depth uint32) Spot {
	if p.Rank == depth {
		p.Rank = 0
	}
	p.Depth = depth
	return p
}

// Key returns the key of the pending record.
func (p Spot) Key(pos ring.Pos, id job.ID) []byte {
	if p.Due > 0 {
		k := binary.BigEndian.AppendUint64(JobPrefix(pos, KindDelayed, id), uint64(p.Due))
		return binary.BigEndian.AppendUint64(k, p.Seq)
	}
	k := binary.BigEndian.AppendUint32(JobPrefix(pos, KindReady, id), p.Place())
	return binary.BigEndian.AppendUint64(k, p.Seq)
}

// Before orders ready records.
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

// DelayedSpot is SpotIn for a record that waits for a retry.
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

// HashIn decodes the hash behind JobPrefix in the key of a URL or outbox entry.
func HashIn(tail []byte) (hash uint64, ok bool) {
	if len(tail) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(tail), true
}

// JobIn returns the job in a key of at least JobPrefixLen bytes.
func JobIn(key []byte) job.ID { return job.ID(key[1+ring.PosSize+1:]) }

// SpotIn decodes the part of a pending record's key behind JobPrefix.
func SpotIn(kind byte, tail []byte) (Spot, bool) {
	if kind == KindDelayed {
		return DelayedSpot(tail)
	}
	return readySpot(tail)
}

// JobPrefixLen is the length of the prefix made by JobPrefix.
const JobPrefixLen = 1 + ring.PosSize + 1 + job.IDSize
