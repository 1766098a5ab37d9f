package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/storage"
)

const (
	pagesOfHost = 100
	refresh     = 8 * time.Hour            // first visits are due within its last eighth
	inputTime   = 10 * time.Millisecond    // of a step, as in node/services/hosts
	pause       = 250 * time.Millisecond   // at most between two steps
	live        = 2 * time.Minute          // of the hour in which the URLs are due
	worker      = "worker"                 // the only one
	offersOfAsk = 32                       // hosts for which one message asks
	syncEvery   = 64                       // steps, as a real loop waits beside the next steps
	startMs     = int64(1_795_000_000_000) // Unix ms
)

// world is an owner with one job, and a worker that answers at once. Virtual time passes as real
// time, and idle time is skipped.
type world struct {
	owner   *owner.Owner
	spec    *job.Spec
	start   time.Time
	now     time.Time
	queue   []func() (through bool) // inputs, the first of which may have begun
	asks    []string                // offered hosts
	replies []*wire.SessionReply    // complete after the step
	got     int                     // fetched pages
	visits  int                     // repeated ones
	took    []time.Duration         // of each step of the phase
	cpu     []time.Duration         // its processor time, without waits for the disk and for other programs
	heap    uint64                  // largest
	failed  error
}

// Job implements owner.Jobs.
func (w *world) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	by, err := job.ParseRefresh(refresh.String())
	w.failed = errors.Join(w.failed, err)
	return w.spec, job.Standing{State: job.StateRunning, Version: 1, Refresh: by}, id == w.spec.ID
}

// Mine implements owner.Ring.
func (*world) Mine(ring.Key) bool { return true }

// steps fetches URLs of a hundredth as many hosts, lets all be due within an hour, and measures the
// steps of the owner: in the hour, and after an outage of the hour.
func steps(ctx context.Context, urls int) (table report.Table, err error) {
	dir, err := os.MkdirTemp("", "apoidea-frontier-")
	if err != nil {
		return table, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	store, err := storage.Open(dir, storage.Options{})
	if err != nil {
		return table, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	runtime.LockOSThread()
	w := &world{start: time.UnixMilli(startMs), now: time.UnixMilli(startMs)}
	if w.spec, err = job.FromWire(&wire.JobSpec{Id: []byte("0123456789abcdef"), Seeds: [][]byte{[]byte("http://h0.example/")}, Scope: []string{"*.example"}}); err != nil {
		return table, err
	}
	w.owner, err = owner.New(owner.Config{Self: "self"}, store.Keyspace(storage.KeyspaceHosts), unseen{}, w, w, w.now)
	if err != nil {
		return table, err
	}
	for host := range max(urls/pagesOfHost, 1) {
		w.queue = append(w.queue, func() bool { w.owner.Links(w.pages(host)); return true })
	}
	urls = max(urls/pagesOfHost, 1) * pagesOfHost
	for _, phase := range []struct {
		name  string
		at    time.Duration // since the last fetch, at which it begins
		until func() bool
	}{
		{"first fetches", 0, func() bool { return w.got == urls }},
		{"hour in which all are due", time.Duration(0.95 * 7 / 8 * float64(refresh)), func() bool { return w.now.Sub(w.start) > live }},
		{"all are due at once", time.Hour, func() bool { return w.visits >= urls }},
	} {
		w.now, w.took, w.cpu, w.heap = w.now.Add(phase.at), nil, nil, 0
		w.start = w.now
		visits := w.visits
		for !phase.until() {
			if err := errors.Join(ctx.Err(), w.step()); err != nil {
				return table, err
			}
			if len(w.took)%4096 == 0 {
				fmt.Fprintf(os.Stderr, "\r%s: %d fetched, %d visited again ", phase.name, w.got, w.visits)
			}
		}
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		slices.Sort(w.took)
		slices.Sort(w.cpu)
		table.Add(phase.name, "visits", "URLs", float64(w.visits-visits))
		table.Add(phase.name, "steps", "steps", float64(len(w.took)))
		for _, times := range []struct {
			name string
			list []time.Duration
		}{{"time", w.took}, {"processor time", w.cpu}} {
			last := len(times.list) - 1
			table.Add(phase.name, times.name+", 99 % of steps", "ms", ms(times.list[last*99/100]))
			table.Add(phase.name, times.name+", all", "ms", ms(times.list[last]))
		}
		table.Add(phase.name, "largest heap", "MiB", float64(w.heap>>20))
	}
	return table, nil
}

// pages is a message with the links to a host's pages.
func (w *world) pages(host int) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{w.spec.ID[:]}}
	for i := range pagesOfHost {
		m.Url = append(m.Url, fmt.Appendf(nil, "http://h%d.example/section/page-%d.html", host, i))
		m.Job, m.Depth = append(m.Job, 0), append(m.Depth, 1)
	}
	return m
}

// step makes one step of the owner, and queues what the worker says to it.
func (w *world) step() error {
	begun, cpu := time.Now(), threadTime()
	w.owner.Begin(w.now)
	room := func() bool { return time.Since(begun) < inputTime }
	w.owner.Within(room)
	for n := 0; len(w.queue) > 0 && (n == 0 || room()); n++ {
		if !w.queue[0]() {
			break
		}
		w.queue = w.queue[1:]
	}
	ready, err := w.owner.Commit()
	took := time.Since(begun)
	w.took, w.cpu = append(w.took, took), append(w.cpu, threadTime()-cpu)
	if err = errors.Join(err, w.failed); err != nil {
		return err
	}
	if len(w.took)%syncEvery == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.heap = max(w.heap, m.HeapAlloc)
		if err := ready.Wait(); err != nil {
			return err
		}
	}
	for _, p := range ready.Places {
		w.queue = append(w.queue, func() bool { w.owner.Placed(p.Host, owner.Placement{Worker: worker}); return true })
	}
	for _, o := range ready.Offers {
		w.asks = append(w.asks, o.Hosts...)
	}
	for hosts := range slices.Chunk(w.asks, offersOfAsk) {
		m := &wire.Session{}
		for _, host := range hosts {
			m.Hosts = append(m.Hosts, &wire.HostWork{Host: host, Want: pagesOfHost})
		}
		w.say(m)
	}
	for _, reply := range w.replies {
		w.fetch(reply)
	}
	w.asks, w.replies = w.asks[:0], w.replies[:0]
	w.now = w.now.Add(took)
	if len(w.queue) == 0 {
		next := w.now.Add(pause)
		if !ready.Next.IsZero() && ready.Next.Before(next) {
			next = ready.Next
		}
		w.now = later(w.now, next)
	}
	return nil
}

// threadTime returns the processor time of this thread; 0 except on Linux.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	_ = syscall.Getrusage(thread, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// say queues a message of the worker, which fetches what the reply grants.
func (w *world) say(m *wire.Session) {
	m.Incarnation, m.Capacity = 1, 10_000
	var v *owner.Visit
	w.queue = append(w.queue, func() bool {
		if v == nil {
			v = w.owner.Visit(worker, m)
		}
		if !v.Go() {
			return false
		}
		w.replies = append(w.replies, v.Reply())
		return true
	})
}

// fetch reports all URLs of the grants, a message for each host.
func (w *world) fetch(reply *wire.SessionReply) {
	for _, g := range reply.GetGrants() {
		again := make(map[int]*wire.Revisit)
		for _, r := range g.GetRevisits() {
			again[int(r.GetAt())] = r
		}
		work := &wire.HostWork{Host: g.GetHost(), Epoch: g.GetEpoch(), Release: true}
		for i, url := range g.GetUrl() {
			work.Fetched = append(work.Fetched, w.answer(url, again[i]))
		}
		w.say(&wire.Session{Hosts: []*wire.HostWork{work}})
	}
}

// answer is that of a page: every second has an ETag, and one in twenty has changed.
func (w *world) answer(url []byte, r *wire.Revisit) *wire.Fetched {
	sum := sha256.Sum256(url)
	f := &wire.Fetched{
		Job: w.spec.ID[:], Url: url, Outcome: uint32(link.OutcomeOK), Status: http.StatusOK, FetchedMs: w.now.UnixMilli(), DurationMs: 90, Size: 30_000, Mime: "text/html",
		Digest: sum[:], RecordId: sum[:16], Content: binary.BigEndian.Uint64(sum[:]),
	}
	if sum[0]%2 == 0 {
		f.Etag = fmt.Sprintf(`"%x"`, sum[:6])
	}
	if r == nil {
		w.got++
		return f
	}
	w.visits++
	switch f.Again = true; {
	case sum[1]%20 == 0:
		sum = sha256.Sum256(sum[:])
		f.Etag, f.Digest, f.Content = "", sum[:], f.Content+1
	case r.GetEtag() != "":
		f.Outcome, f.Status, f.Content, f.Digest = uint32(link.OutcomeDuplicate), http.StatusNotModified, 0, r.GetDigest()
	}
	return f
}
