package hosts

import (
	"encoding/binary"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Away sums up the hosts that rest and that memory had no room for: there may be millions of them,
// and whether a crawl has an end hangs on all. What a host has in the sums lies in its record of
// the work index, with the start of the process that put it there, and is taken out again when the
// host is loaded.
type Away map[awayKey]awaySum

type awayKey struct {
	job     job.ID // zero: of all jobs
	outcome link.Outcome
	until   int64 // a whole awayUnit
}

type awaySum struct{ hosts, urls int64 }

// awayUnit in ms is how exactly the sums know until when their hosts rest. None rests for longer
// than a day or so, so there are not many sums.
const awayUnit = 60_000

func (a Away) add(k awayKey, hosts, urls int64) {
	s := a[k]
	s.hosts += hosts
	s.urls += urls
	if a[k] = s; s == (awaySum{}) {
		delete(a, k)
	}
}

// leave notes a host that is dropped from memory, if it rests.
func (r *Rests) leave(h *Host) {
	whole := r.RestsUntil(h)
	var parts []byte
	until, n := Never, int64(0)
	for _, hj := range h.Jobs {
		w := hj.wait()
		if urls, at := w.until(whole, h.Rec.BackoffUntil > r.Now); urls > 0 && at > r.Now+awayUnit {
			until = min(until, at)
			n += urls
			parts = binary.BigEndian.AppendUint64(append(parts, hj.State.ID[:]...), uint64(urls)) // positive
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

// awayHead is how long the record of a host that is away is before its jobs, awayPart what each of
// those takes.
const (
	awayHead = 2 + 8 + 8 + 1
	awayPart = job.IDSize + 8
)

// back takes a host that is loaded out of the sums.
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

// tally counts one host into the sums, or out of them.
func (r *Rests) tally(head, parts []byte, sign int64) {
	k := awayKey{until: int64(binary.BigEndian.Uint64(head[10:])), outcome: link.Outcome(head[18])} // as it was written
	var all int64
	for ; len(parts) >= awayPart; parts = parts[awayPart:] {
		urls := int64(binary.BigEndian.Uint64(parts[job.IDSize:])) // as it was written
		all += urls
		r.Away.add(awayKey{job.ID(parts), k.outcome, k.until}, sign, sign*urls)
	}
	r.Away.add(k, sign, sign*all)
}

// Waits adds the hosts that are away to what is known of those in memory.
func (a Away) Waits(now, horizon int64, byOutcome map[link.Outcome]*Wait, jobs map[job.ID]PutOff) {
	for k, s := range a {
		until := time.UnixMilli(k.until)
		switch {
		case k.until <= now:
		case k.job != job.ID{} && k.until > horizon:
			p := jobs[k.job]
			jobs[k.job] = PutOff{p.URLs + s.urls, p.Hosts + s.hosts, earlier(p.Next, until)}
		case k.job == job.ID{}:
			w := WaitOf(byOutcome, k.outcome)
			w.Hosts += s.hosts
			w.URLs += s.urls
			w.Next = earlier(w.Next, until)
			if k.until > horizon {
				w.PutOff += s.urls
				w.HostsPutOff += s.hosts
				w.NextPutOff = earlier(w.NextPutOff, until)
			}
		}
	}
}
