package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// nothing is an archive and an owner of bodies that keep nothing.
type nothing struct{}

func (nothing) Save(*pages.Exchange) (string, error) {
	return "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f", nil
}
func (nothing) Sync() error { return nil }
func (nothing) Claim(_ context.Context, q []pages.Question) ([]pages.Answer, error) {
	return make([]pages.Answer, len(q)), nil
}
func (nothing) Confirm(context.Context, []reports.Confirmation) error { return nil }

// TestPiecesFit: the links of a page are cut into pieces that a message holds, and messages into
// such as a frame holds.
func TestPiecesFit(t *testing.T) {
	x := newWorld(t, site(1), []string{"http://a.example/"})
	lease, ref := &session.Lease{Host: "a.example"}, &reports.Job{}
	it := reports.Item{Job: ref, URL: "http://a.example/map.xml", Kind: link.KindSitemap}
	f := reports.NewFollower(x.worker.cfg.Known)
	r := reports.New(lease, &it, link.OutcomeOK)
	r.Fetched.Etag, r.Fetched.Detail = strings.Repeat("e", wire.MaxText), strings.Repeat("d", wire.MaxText)
	var links []link.Link
	for i := range 60_000 {
		links = append(links, link.Link{URL: fmt.Sprintf("http://a.example/%s/%d", strings.Repeat("p", 100), i)})
	}
	f.AddLinks(r, ref, it.URL, links)
	x.worker.mu.Lock()
	defer x.worker.mu.Unlock()
	tell := func(r *reports.Report) {
		lease.Piped++ // as a page that was worked on
		x.worker.visits.Processed(time.Now(), r)
	}
	tell(r)
	s := x.worker.sessions.Sessions()[0]
	message := func() *wire.Session { return x.worker.sessions.Turn(time.Now(), s, s.Ready(), nil).Message }
	total, messages := 0, 0
	for s.Ready() > 0 {
		m := message()
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(m); size > session.MaxMessage+1<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		for _, f := range m.GetHosts()[0].GetFetched() {
			total += len(f.GetLinks())
		}
		messages++
	}
	if total != len(links) || messages < 3 {
		t.Errorf("%d links of %d in %d messages", total, len(links), messages)
	}
	short := reports.New(lease, &it, link.OutcomeOK)
	f.AddLinks(short, ref, it.URL, slices.Repeat([]link.Link{{URL: "http://b.example/"}}, extract.MaxLinks))
	tell(short)
	for s.Ready() > 0 { // whoever takes them in may have to make a record of each
		n := 0
		for _, f := range message().GetHosts()[0].GetFetched() {
			n += len(f.GetLinks())
		}
		if n == 0 || n > session.MaxTold {
			t.Errorf("a message of %d links", n)
		}
	}
}
