package worker

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
)

// site is n pages that form a tree, each with links to its neighbours as well; robots.txt is not
// there.
func site(n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/p"))
		if r.URL.Path == "/" {
			i, err = 0, nil
		}
		if err != nil || i >= n {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<title>%s page %d</title>", r.Host, i)
		for _, k := range []int{2*i + 1, 2*i + 2, i + 1, i - 1} {
			if k > 0 && k < n {
				fmt.Fprintf(rw, "<a href=/p%d>%d</a>", k, k)
			}
		}
	}
}

// TestThousandPages crawls a site of a thousand pages: every page once, archived once, nothing
// left.
func TestThousandPages(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(1000), []string{"http://a.example/"})
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != 1000 || len(got) != 1 {
			t.Errorf("outcomes %v, want 1000 ok", got)
		}
		for url, n := range x.asked {
			if n != 1 {
				t.Errorf("%s was asked for %d times", url, n)
			}
		}
		if len(x.archive.saved) != 1000 || x.archive.synced != 1000 {
			t.Errorf("%d archived, %d synced, want 1000", len(x.archive.saved), x.archive.synced)
		}
		if s := x.worker.Stats(); s.Pages != 1000 || s.Requests != 1001 || s.Hosts != 0 || s.Window != 0 || s.Processing != 0 || s.Unreported != 0 {
			t.Errorf("stats %+v", s)
		}
		if h := x.host("a.example"); h.epoch != 0 || h.again != 0 {
			t.Errorf("lease %d is still held, %d outcomes were told twice", h.epoch, h.again)
		}
		if n := len(x.content.confirmed); n != 1000 {
			t.Errorf("%d bodies confirmed, want 1000", n)
		}
		t.Logf("%d sessions, %d syncs, %d claims", x.owners["owner"].sessions, x.archive.syncs, len(x.content.batches))
	})
}
