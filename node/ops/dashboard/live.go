package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// tick is the interval of samples and of page refreshes.
	tick = time.Second
	// fresh is the maximum age of a model for a page load, which limits the cost of repeated loads.
	fresh = 400 * time.Millisecond
	// askTime is the timeout for collecting a model; a busy peer is shown in its last state.
	askTime = 3 * time.Second
	// actTime is the timeout of an action; posting a job waits for the disks of other peers.
	actTime = 10 * time.Second
	// maxStreams limits open pages.
	maxStreams = 16
	// slow is the write timeout to a browser; it reconnects by itself.
	slow = 5 * time.Second
	// walkEvery is the interval of walks while a page is open, walkTime their timeout, and maxWalked
	// the maximum members of a ring to walk.
	walkEvery = 2 * time.Second
	walkTime  = 5 * time.Second
	maxWalked = 64
	// listShare limits the listing of jobs to one part in listShare of the time, because it requests
	// all jobs of every member.
	listShare = 20
	// reconnect is the delay of a reconnect in milliseconds.
	reconnect = 2000
)

// live stores the data of the pages: history, log, the last model, and the open streams. It is safe
// for concurrent use.
type live struct {
	peer Peer
	soon chan struct{} // requests a walk
	poke chan struct{} // requests a refresh

	asking sync.Mutex // held while a model is collected, so that concurrent loads share it
	mu     sync.Mutex // guards the fields below; not held during calls of the peer
	past   *history
	log    []control.RingEvent // newest last
	last   *model
	whole  *whole        // result of the last walk; nil before the first
	looked time.Time     // time of the last page
	jobs   []control.Job // last listing, at most maxJobs; nil before the first
	list   time.Time     // time of the next listing
	open   map[*stream]struct{}
}

// whole is the result of a walk.
type whole struct {
	at     time.Time // when the walk began: a busy ring can change before it ends
	ring   *control.Ring
	totals control.Counters // of all members
}

// stream is one open page. It receives only the newest model.
type stream struct {
	models chan *model
}

func newLive(peer Peer) *live {
	return &live{peer: peer, poke: make(chan struct{}, 1), soon: make(chan struct{}, 1), past: new(history), open: make(map[*stream]struct{})}
}

// nudge requests a refresh of open pages.
func (l *live) nudge() { loop.Wake(l.poke) }

// run reads the gauges and refreshes open pages until ctx ends.
func (l *live) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = l.peer.Watch(ctx, func(e control.RingEvent) error { // ends with ctx
			l.note(e)
			return nil
		})
	})
	watching.Go(func() { l.walk(ctx) })
	defer watching.Wait()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		l.measure(ctx)
		l.refresh(ctx)
		select {
		case <-ticks.C:
		case <-l.poke:
		case <-ctx.Done():
			return
		}
	}
}

// walk walks the ring periodically while a page is open, until ctx ends. Only a walk shows the
// state of the ring and the totals of all members.
func (l *live) walk(ctx context.Context) {
	ticks := time.NewTicker(walkEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-l.soon:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		wanted := time.Since(l.looked) < 2*tick && l.last.status.Ring.Members <= maxWalked && (l.whole == nil || time.Since(l.whole.at) > tick)
		l.mu.Unlock()
		if !wanted {
			continue
		}
		begin := time.Now()
		part, cancel := context.WithTimeout(ctx, walkTime)
		r, err := l.peer.Ring(part)
		cancel()
		if err != nil {
			continue // the page shows the time of the last walk
		}
		if l.set(begin, r) {
			l.listJobs(ctx)
		}
	}
}

// set stores the result of a walk that began at begin, and reports whether a listing of the jobs is
// due.
func (l *live) set(begin time.Time, r *control.Ring) bool {
	found := &whole{at: begin, ring: r}
	for i := range r.Members {
		found.totals.Add(&r.Members[i].Counters)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = found
	l.nudge()
	return found.at.After(l.list)
}

// jobRank sorts running and paused jobs first.
var jobRank = map[string]int{"running": -1, "paused": -1}

// listJobs requests the jobs of the members and stores those to show.
func (l *live) listJobs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, walkTime)
	defer cancel()
	begin := time.Now()
	list, err := l.peer.Jobs(ctx)
	slices.Reverse(list) // the newest first
	slices.SortStableFunc(list, func(a, b control.Job) int { return cmp.Compare(jobRank[a.State], jobRank[b.State]) })
	list = append([]control.Job{}, list[:min(len(list), maxJobs)]...)
	for i := range list { // a job may have megabytes of seeds
		urls := list[i].Spec.URLs
		list[i].Spec.URLs = slices.Clone(urls[:min(len(urls), 1)])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list = time.Now().Add(listShare * time.Since(begin)); err == nil {
		l.jobs = list
	}
}

// note adds an event to the log.
func (l *live) note(e control.RingEvent) {
	l.mu.Lock()
	l.log = append(l.log, e)
	if len(l.log) > 2*maxLog {
		l.log = append(l.log[:0], l.log[len(l.log)-maxLog:]...)
	}
	l.mu.Unlock()
	l.nudge()
	l.walkSoon()
}

// walkSoon requests a walk.
func (l *live) walkSoon() { loop.Wake(l.soon) }

// measure takes a sample for the charts. A timeout leaves a gap.
func (l *live) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tick)
	defer cancel()
	g, err := l.peer.Gauges(ctx)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.past.at) >= tick/2 { // a nudge between two ticks
		l.past.add(now, g)
	}
}

// refresh sends a new model to the open pages, if there are any.
func (l *live) refresh(ctx context.Context) {
	l.mu.Lock()
	n := len(l.open)
	l.mu.Unlock()
	if n == 0 {
		return
	}
	m, err := l.model(ctx, 0)
	if err != nil {
		return // the pages detect missing updates
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.open {
		select {
		case <-s.models: // it has not read the last one
		default:
		}
		s.models <- m
	}
}

// model returns a model that is at most age old.
func (l *live) model(ctx context.Context, age time.Duration) (*model, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last != nil && age > 0 && time.Since(last.at) < age {
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	m, err := ask(ctx, l.peer)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.jobs = l.jobs
	m.points = l.past.means(m.at)
	if last := m.points[len(m.points)-1]; last.Queue >= 0 { // there are samples
		m.latest = last
	}
	for i := len(l.log) - 1; i >= 0 && len(m.log) < maxLog; i-- {
		m.log = append(m.log, l.log[i])
	}
	if m.whole = l.whole; m.whole == nil || m.at.Sub(m.whole.at) > walkTime+2*walkEvery {
		m.whole = nil
		l.walkSoon()
	}
	l.last, l.looked = m, m.at
	return m, nil
}

// join opens a stream; nil if there are too many.
func (l *live) join() *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxStreams {
		return nil
	}
	s := &stream{models: make(chan *model, 1)}
	l.open[s] = struct{}{}
	return s
}

func (l *live) leave(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// follow sends the changed parts of a page until the browser disconnects or is too slow.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	st := s.live.join()
	if st == nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("too many open pages: %d", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.live.leave(st)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(event string, data []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(slow))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		return err == nil
	}
	if _, err := fmt.Fprintf(w, "retry: %d\n\n", reconnect); err != nil || out.Flush() != nil {
		return
	}
	s.live.nudge()
	acts := s.mayAct(r)
	seed, sent := maphash.MakeSeed(), make(map[string]uint64)
	for {
		select {
		case m := <-st.models:
			parts, err := s.parts(m, acts)
			if err != nil {
				s.log.Warn("dashboard page not rendered", "err", err)
				return
			}
			for _, part := range parts {
				hash := maphash.String(seed, part.HTML)
				if sent[part.ID] == hash {
					continue
				}
				sent[part.ID] = hash
				raw, err := json.Marshal(part)
				if err != nil || !send("part", raw) {
					return
				}
			}
			if !send("beat", []byte("1")) || out.Flush() != nil { // heartbeat for the script
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
