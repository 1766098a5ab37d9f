package worker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// weighed notes how many bytes of URLs an answer brings at most.
type weighed struct {
	Owners
	most int
}

func (o *weighed) Session(ctx context.Context, owner string, m *wire.Session) (*wire.SessionReply, error) {
	reply, err := o.Owners.Session(ctx, owner, m)
	sum := 0
	for _, g := range reply.GetGrants() {
		for _, url := range g.GetUrl() {
			sum += len(url)
		}
	}
	o.most = max(o.most, sum)
	return reply, err
}

// TestWindowsAreBounded: of URLs of thousands of bytes a worker takes no more than it may hold, and
// crawls them all.
//
// Slow: thousands of hosts in virtual time.
func TestWindowsAreBounded(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const hosts, each, long = 20, 150, 4000
		owners := &weighed{}
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintln(rw, r.Host, r.URL.Path)
			if r.URL.Path == "/" {
				for i := range each {
					fmt.Fprintf(rw, "<a href=/%d/%s></a>\n", i, strings.Repeat("x", long))
				}
			}
		}, manyHosts(hosts), func(x *world) {
			x.cfg.MaxWindowBytes = 256 << 10
			owners.Owners = x
			x.deps.Owners = owners
		})
		w, most := x.worker, int64(0)
		inner := w.deps.Events
		w.deps.Events = func(e Event) {
			inner(e)
			w.mu.Lock()
			defer w.mu.Unlock()
			sum, _, _ := w.visits.Weight()
			most = max(most, sum)
		}
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != hosts*(each+1) {
			t.Errorf("outcomes %v", got)
		}
		left, _, _ := w.visits.Weight()
		if bound := w.cfg.MaxWindowBytes + int64(owners.most) + hosts*(long+100); most > bound || left != 0 {
			t.Errorf("windows of %d bytes, want %d at most; %d at the end", most, bound, left)
		}
		// Without the bound all are held at once. How many an answer brings hangs on how many hosts
		// ask in one session.
		if all := int64(hosts * each * long); most > all/2 {
			t.Errorf("windows of %d bytes, of %d in all", most, all)
		}
	})
}
