package visits

import (
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// windows are the waiting URLs of all hosts. They are bounded in bytes as well as in number: a URL
// may have a hundred bytes or eight thousand.
type windows struct {
	frontier *frontier.Frontier[reports.Item]
	most     int64 // zero: no limit
	bytes    int64
	serial   uint64 // of URLs
}

// revisitBytes is the size of a Revisit in memory beyond its encoding.
const revisitBytes = 192

// push adds URLs to a host's window.
func (ws *windows) push(h *host, items []reports.Item) {
	var last *link.Source
	for i := range items {
		if items[i].Weight = len(items[i].URL); items[i].Source != last {
			last = items[i].Source
			items[i].Weight += last.Len()
		}
		if items[i].Revisit != nil {
			items[i].Weight += revisitBytes + proto.Size(items[i].Revisit)
		}
		ws.serial++
		items[i].Serial, items[i].Rank = ws.serial, items[i].Depth
		if j := items[i].Job; j != nil && j.Spec != nil {
			items[i].Rank = j.Spec.Rank(items[i].URL, items[i].Depth)
		}
		ws.weigh(h, items[i].Weight)
	}
	ws.frontier.Push(h.Host, items...)
}

// pop removes and returns the next URL of a host; h may be nil.
func (ws *windows) pop(name string, h *host) (reports.Item, bool) {
	it, ok := ws.frontier.Take(name)
	if ok && h != nil {
		ws.weigh(h, -it.Weight)
	}
	return it, ok
}

// unpop returns a URL to the front of its host's window.
func (ws *windows) unpop(h *host, it *reports.Item) {
	ws.weigh(h, it.Weight)
	ws.frontier.Unget(h.Host, *it)
}

func (ws *windows) full() bool { return ws.most > 0 && ws.bytes >= ws.most }

func (ws *windows) weigh(h *host, bytes int) {
	h.window += int64(bytes)
	ws.bytes += int64(bytes)
}
