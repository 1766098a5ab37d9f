package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/node/control"
)

// TestLinksLeftOut: links of a page beyond the bound are counted, the page says so, and so does a URL of which nobody has heard; in a ring as well.
func TestLinksLeftOut(t *testing.T) {
	t.Parallel()
	const more = 25
	s := serveSite(t, func(s *site, w http.ResponseWriter, _ *http.Request) {
		for i := range extract.MaxLinks + more {
			fmt.Fprintf(w, "<a href=http://%s/>x</a>", s.host(fmt.Sprint("n", i)))
		}
	})
	peers := ringOf(t, 2, func(int, *Config) {})
	wide := "http://" + s.host("wide") + "/"
	depth := uint32(0)
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{wide}, Scope: []string{"*.localhost"}, MaxDepth: &depth})
	for _, p := range peers {
		w, err := p.Why(t.Context(), wide)
		if err != nil || len(w.Jobs) != 1 || w.Jobs[0].LinksLeftOut != more || !strings.Contains(w.Jobs[0].Text, "25 links of it were left out") {
			t.Errorf("why of the page: %+v, %v", w, err)
		}
		h, err := p.Host(t.Context(), s.host("wide"))
		if err != nil || len(h.Jobs) != 1 || h.Jobs[0].LinksLeftOut != more {
			t.Errorf("host: %+v, %v", h, err)
		}
		status, err := p.Status(t.Context(), true)
		if err != nil || status.LinksLeftOut != more {
			t.Errorf("status: %+v, %v", status, err)
		}
	}
	until(t, "word of what was left out", func(ctx context.Context) bool {
		for _, name := range []string{"unheard", "nobody"} {
			w, err := peers[1].Why(ctx, "http://"+s.host("wide")+"/"+name)
			if err != nil || len(w.Jobs) != 1 || !strings.Contains(w.Jobs[0].Text, "25 links of pages of the job were left out") {
				return false
			}
		}
		return true
	})
}

// TestLinksOfACutDocument: a document over the bound on its size gives the links of what was taken.
func TestLinksOfACutDocument(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	s := serveSite(t, func(s *site, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			fmt.Fprint(w, "a page")
			return
		}
		fmt.Fprint(w, "<a href=/first>x</a>"+strings.Repeat("text ", most/5)+"<a href=/behind>x</a>")
	})
	peers := ringOf(t, 1, func(_ int, c *Config) { c.MaxBody = most })
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{"http://" + s.host("long") + "/"}})
	if n, k := len(s.requests("/first")), len(s.requests("/behind")); n != 1 || k != 0 {
		t.Errorf("%d requests for the link at the beginning, %d for the one behind the bound", n, k)
	}
	w, err := peers[0].Why(t.Context(), "http://"+s.host("long")+"/")
	if err != nil || len(w.Jobs) != 1 || w.Jobs[0].Outcome != "too_large" {
		t.Errorf("why: %+v, %v", w, err)
	}
}
