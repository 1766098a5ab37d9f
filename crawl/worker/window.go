package worker

import "github.com/apoidea/apoidea/crawl/worker/reports"

// The windows of all hosts are bounded in bytes as well as in URLs: one of these may have eight thousand bytes, and others have a hundred. All of it is under the
// worker's mutex.

// push adds URLs to a host's window.
func (w *Worker) push(h *host, items []reports.Item) {
	for i := range items {
		w.weighWindow(h, len(items[i].URL))
	}
	w.frontier.Push(h.Host, items...)
}

// pop takes the next URL of a host; h may be nil.
func (w *Worker) pop(name string, h *host) (reports.Item, bool) {
	it, ok := w.frontier.Take(name)
	if ok && h != nil {
		w.weighWindow(h, -len(it.URL))
	}
	return it, ok
}

// unpop puts a URL back in front of its host's window.
func (w *Worker) unpop(h *host, it reports.Item) {
	w.weighWindow(h, len(it.URL))
	w.frontier.Unget(h.Host, it)
}

func (w *Worker) weighWindow(h *host, bytes int) {
	h.window += int64(bytes)
	w.windows += int64(bytes)
}
