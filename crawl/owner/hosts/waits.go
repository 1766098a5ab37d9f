package hosts

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Wait sums up the deferred hosts with pending URLs, for one reason: they failed, or require a
// delay. The politeness delay alone does not count. The JSON names are stable.
type Wait struct {
	// Reason is the failure, such as dns or connect, or asked: the site requires the delay, or single
	// URLs wait for a retry.
	Reason string `json:"reason"`
	Hosts  int64  `json:"hosts"` // number of hosts
	URLs   int64  `json:"urls"`  // pending URLs of those hosts
	// PutOff counts the URLs whose next try is later than the wait limit.
	PutOff      int64 `json:"put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"` // hosts of these URLs
	// NextS is the time in seconds to the first retry.
	NextS float64 `json:"next_s"`
	// NextPutOffS is the time in seconds to the first retry of PutOff.
	NextPutOffS float64 `json:"next_put_off_s,omitempty"`
	// Examples are some of the hosts, those with the most PutOff first.
	Examples []WaitingHost `json:"examples,omitempty"`
}

// WaitingHost is a deferred host.
type WaitingHost struct {
	Host string `json:"host"` // its name
	URLs int64  `json:"urls"` // pending URLs
	// PutOff counts the URLs whose next try is later than the wait limit.
	PutOff int64   `json:"put_off,omitempty"`
	NextS  float64 `json:"next_s"` // seconds until its next try
	// Fails counts consecutive failures.
	Fails uint32 `json:"fails,omitempty"`
	Why   string `json:"why,omitempty"` // the last failure, or the delay that the site requires
}

// PutOff counts a job's deferred URLs, whose next try is beyond a horizon, and their hosts.
type PutOff struct {
	URLs, Hosts int64   // numbers of each
	NextS       float64 // seconds until the first is due
}

const (
	// maxWaits limits the reasons accepted from a peer, maxExamples the hosts of each.
	maxWaits    = 64
	maxExamples = 4
)

// reasonAsked is the reason of hosts that require a delay, and of single URLs that wait for a
// retry.
const reasonAsked = "asked"

// WaitOf returns the entry of an outcome, created if missing.
func WaitOf(byOutcome map[link.Outcome]*Wait, outcome link.Outcome) *Wait {
	w := byOutcome[outcome]
	if w == nil {
		w = &Wait{Reason: reasonAsked}
		if outcome != link.OutcomeNone {
			w.Reason = outcome.String()
		}
		byOutcome[outcome] = w
	}
	return w
}

// AddWaits merges the reports of two peers by reason; neither is changed.
func AddWaits(a, b []Wait) []Wait {
	a = slices.Clone(a)
	for _, w := range b[:min(len(b), maxWaits)] {
		i := slices.IndexFunc(a, func(x Wait) bool { return x.Reason == w.Reason })
		if i < 0 {
			if len(a) >= maxWaits {
				break
			}
			i = len(a)
			a = append(a, Wait{Reason: w.Reason})
		}
		a[i].Examples = slices.Clone(a[i].Examples)
		a[i].add(&w)
	}
	slices.SortStableFunc(a, func(x, y Wait) int { return cmp.Or(cmp.Compare(y.PutOff, x.PutOff), cmp.Compare(y.URLs, x.URLs)) })
	return a
}

func (w *Wait) add(o *Wait) {
	w.Hosts += o.Hosts
	w.URLs += o.URLs
	w.PutOff += o.PutOff
	w.HostsPutOff += o.HostsPutOff
	w.NextS, w.NextPutOffS = Sooner(w.NextS, o.NextS), Sooner(w.NextPutOffS, o.NextPutOffS)
	for _, e := range o.Examples[:min(len(o.Examples), maxExamples)] {
		w.example(e)
	}
}

// example inserts a host in order, if it is one of the first.
func (w *Wait) example(e WaitingHost) {
	at, _ := slices.BinarySearchFunc(w.Examples, e, func(a, b WaitingHost) int {
		return cmp.Or(cmp.Compare(b.PutOff, a.PutOff), cmp.Compare(b.URLs, a.URLs), cmp.Compare(a.Host, b.Host))
	})
	if at < maxExamples {
		w.Examples = slices.Insert(w.Examples, at, e)
		w.Examples = w.Examples[:min(maxExamples, len(w.Examples))]
	}
}

// Rest is the wait of a host.
type Rest struct {
	URLs, putOff int64 // waiting, and beyond the horizon
	until        int64 // Unix ms
}

// add counts URLs of a job that wait until a time.
func (r *Rest) add(js *JobState, urls, at, now, horizon int64, jobs map[job.ID]PutOff) {
	if urls == 0 || at <= now {
		return
	}
	r.URLs += urls
	r.until = min(r.until, at)
	if at <= horizon {
		return
	}
	r.putOff += urls
	p := jobs[js.ID]
	jobs[js.ID] = PutOff{p.URLs + urls, p.Hosts + 1, Sooner(p.NextS, SecondsUntil(at, now))}
}

// waits returns the number of waiting URLs of the job and their time: all that are not out if the
// host waits as a whole, else those that wait for a retry.
func (hj *Job) waits(whole int64, rests bool) (urls, at int64) {
	waiting := hj.Tally.Waiting()
	if waiting > 0 && (!rests || waiting == hj.Tally.Unleased()) {
		return waiting, max(hj.NextDue(), whole)
	}
	if rests {
		return hj.Tally.Unleased(), whole
	}
	return 0, 0
}

// Add counts a host.
func (w *Wait) Add(h *Host, r *Rest, now int64) {
	next := SecondsUntil(r.until, now)
	one := Wait{Hosts: 1, URLs: r.URLs, PutOff: r.putOff, NextS: next}
	if r.putOff > 0 {
		one.HostsPutOff, one.NextPutOffS = 1, next
	}
	w.add(&one)
	w.example(WaitingHost{Host: h.Rec.Name, URLs: r.URLs, PutOff: r.putOff, NextS: next, Fails: h.Rec.Fails, Why: h.Rec.BackoffReason})
}

// Sooner returns the smaller of two times in seconds; 0 is none.
func Sooner(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// SecondsUntil returns the seconds to a time in ms, more than 0; 0 for Never.
func SecondsUntil(at, now int64) float64 {
	if at == Never {
		return 0
	}
	return max(float64(at-now)/1000, 0.001)
}

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
