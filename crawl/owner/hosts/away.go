package hosts

import (
	"encoding/binary"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Away holds sums of the waits of evicted hosts: there may be millions, and the end of a crawl
// depends on all of them. A host's share of the sums is stored in its record of the work index,
// with the start time of the process, and subtracted when the host is loaded.
type Away map[awayKey]awaySum

type awayKey struct {
	job     job.ID // zero: sum of all jobs
	outcome link.Outcome
	until   int64 // a multiple of awayUnit
}

type awaySum struct{ hosts, urls int64 }

// awayUnit is the resolution of the sums in ms. No host waits for much longer than a day, so there
// are few sums.
const awayUnit = 60_000

func (a Away) add(k awayKey, hosts, urls int64) {
	s := a[k]
	s.hosts += hosts
	s.urls += urls
	if a[k] = s; s == (awaySum{}) {
		delete(a, k)
	}
}

// leave adds an evicted host that waits.
func (r *Rests) leave(h *Host) {
	whole := r.RestsUntil(h)
	var parts []byte
	until, n := Never, int64(0)
	for _, hj := range h.Jobs {
		if urls, at := hj.waits(whole, h.Rec.BackoffUntil > r.Now); urls > 0 && at > r.Now+awayUnit {
			until = min(until, at)
			n += urls
			parts = binary.BigEndian.AppendUint64(append(parts, hj.State.ID[:]...), uint64(urls)) // not negative
		}
	}
	if n == 0 {
		return
	}
	until -= until % awayUnit
	value := binary.BigEndian.AppendUint64([]byte{ondisk.Format, h.work}, uint64(r.Start))       // a time
	value = append(binary.BigEndian.AppendUint64(value, uint64(until)), byte(h.Rec.FailOutcome)) // a time
	r.Buf.Set(ondisk.WorkKey(h.Pos), append(value, parts...))
	r.tally(value, parts, 1)
}

// awayHead is the length of an evicted host's record before its jobs, awayPart that of each job.
const (
	awayHead = 2 + 8 + 8 + 1
	awayPart = job.IDSize + 8
)

// back subtracts a loaded host.
func (r *Rests) back(h *Host) {
	value, ok := r.Buf.Get(ondisk.WorkKey(h.Pos))
	if !ok || len(value) < awayHead {
		return
	}
	if binary.BigEndian.Uint64(value[2:]) == uint64(r.Start) { // a time
		r.tally(value[:awayHead], value[awayHead:], -1)
	}
	r.Buf.Set(ondisk.WorkKey(h.Pos), []byte{ondisk.Format, value[1]})
}

// tally adds one host to the sums, or subtracts it.
func (r *Rests) tally(head, parts []byte, sign int64) {
	k := awayKey{until: int64(binary.BigEndian.Uint64(head[10:])), outcome: link.Outcome(head[18])} // as written
	var all int64
	for ; len(parts) >= awayPart; parts = parts[awayPart:] {
		urls := int64(binary.BigEndian.Uint64(parts[job.IDSize:])) // as written
		all += urls
		r.Away.add(awayKey{job.ID(parts), k.outcome, k.until}, sign, sign*urls)
	}
	r.Away.add(k, sign, sign*all)
}

// Waits adds the evicted hosts to the waits of the hosts in memory.
func (a Away) Waits(now, horizon int64, byOutcome map[link.Outcome]*Wait, jobs map[job.ID]PutOff) {
	for k, s := range a {
		next := SecondsUntil(k.until, now)
		switch {
		case k.until <= now:
		case k.job != job.ID{} && k.until > horizon:
			p := jobs[k.job]
			jobs[k.job] = PutOff{p.URLs + s.urls, p.Hosts + s.hosts, Sooner(p.NextS, next)}
		case k.job == job.ID{}:
			some := Wait{Hosts: s.hosts, URLs: s.urls, NextS: next}
			if k.until > horizon {
				some.PutOff, some.HostsPutOff, some.NextPutOffS = s.urls, s.hosts, next
			}
			WaitOf(byOutcome, k.outcome).add(&some)
		}
	}
}
