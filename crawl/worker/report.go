package worker

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// reportQueued updates the size of the outbox after a report was added. The caller holds the mutex.
func (w *Worker) reportQueued(now time.Time) {
	w.weigh()
	if _, running, piped := w.visits.Load(); running+piped == 0 && w.visits.Laden() {
		w.hurry(now) // nothing is added until this is acknowledged
	}
}

// weigh sums up the bytes of the outbox, without those for unresponsive owners, and wakes what
// waits for it to shrink. The caller holds the worker's mutex.
func (w *Worker) weigh() {
	sum := w.sessions.UnackedBytes()
	if before := w.telling.Swap(sum); before >= w.cfg.Sessions.MaxReportBytes && sum < w.cfg.Sessions.MaxReportBytes {
		w.idle.wakeAll()
		w.pipe.GoOn()
	}
}

// reportsFull reports whether the outbox is full, so that acknowledgments must come first.
func (w *Worker) reportsFull() bool { return w.telling.Load() >= w.cfg.Sessions.MaxReportBytes }

// event counts an outcome and calls the Events callback.
func (w *Worker) event(r *reports.Report, links int) {
	f := r.Fetched
	outcome := link.Outcome(f.GetOutcome()) // a valid link.Outcome
	w.stats.count(f)
	if w.deps.Events != nil {
		w.deps.Events(Event{
			URL: string(f.GetUrl()), Job: job.ID(f.GetJob()), Depth: f.GetDepth(), Outcome: outcome, Status: int(f.GetStatus()),
			Size: int64(f.GetSize()), Duration: time.Duration(f.GetDurationMs()) * time.Millisecond, Links: links, Detail: f.GetDetail(),
		})
	}
}

// finisher handles the results of the page pipeline.
type finisher struct{ w *Worker }

var _ pages.Worker = finisher{}

// Report implements pages.Worker.
func (f finisher) Report(r *reports.Report, links int) {
	w, now := f.w, time.Now()
	w.mu.Lock()
	w.visits.Processed(now, r)
	w.reportQueued(now)
	w.mu.Unlock()
	w.event(r, links)
}

// Laden implements pages.Worker.
func (f finisher) Laden() bool { return f.w.reportsFull() }

// Resting implements pages.Worker.
func (f finisher) Resting() bool {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, running, _ := w.visits.Load(); running > 0 {
		return false
	}
	due := w.visits.Frontier().Due()
	return due.IsZero() || time.Until(due) > w.cfg.Pages.ClaimLinger || w.visits.Laden()
}

// Begin implements pages.Worker.
func (f finisher) Begin() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.idle.wakeAll()
}

// Broken implements pages.Worker.
func (f finisher) Broken(err error) { f.w.broken(err) }
