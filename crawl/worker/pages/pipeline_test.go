package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// tester is a worker that counts what becomes of pages, an archive and an owner of bodies.
type tester struct {
	pipe  *Pipeline
	spec  *job.Spec
	known *reports.Known

	mu      sync.Mutex
	told    []*reports.Report
	saved   int
	broken  error
	refuse  error         // what the archive says
	verdict func() Answer // of a body
	keep    bool          // reports are kept, and not acknowledged at once
}

func newTest(t testing.TB, change ...func(*Config)) *tester {
	spec, err := job.FromWire(&wire.JobSpec{Id: []byte("0123456789abcdef"), Seeds: [][]byte{[]byte("http://a.example/")}})
	if err != nil {
		t.Fatal(err)
	}
	x := &tester{spec: spec, known: reports.NewKnown(1 << 10), verdict: func() Answer { return Answer{} }}
	cfg := Config{
		Agent: "apoidea", Processors: 2, MaxMemory: 32 << 20, ClaimLinger: 100 * time.Millisecond, MaxParked: 8 << 20,
	}
	for _, fn := range change {
		fn(&cfg)
	}
	x.pipe = NewPipeline(cfg, Deps{Archive: x, Content: x, Known: x.known, Log: slog.New(slog.DiscardHandler)}, x)
	return x
}

func (x *tester) Report(r *reports.Report, _ int) {
	if !x.keep {
		x.known.Acknowledged(&r.Report)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = append(x.told, r)
}

func (x *tester) Laden() bool   { return false }
func (x *tester) Resting() bool { return true }
func (x *tester) Begin()        {}
func (x *tester) Broken(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken = err
}

func (x *tester) Save(*Exchange) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refuse != nil {
		return "", x.refuse
	}
	x.saved++
	return "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f", nil
}
func (x *tester) Sync() error { return nil }

func (x *tester) Claim(_ context.Context, q []Question) ([]Answer, error) {
	answers := make([]Answer, len(q))
	for i := range answers {
		answers[i] = x.verdict()
	}
	return answers, nil
}
func (x *tester) Confirm(context.Context, []reports.Confirmation) error { return nil }

// TestOutcomes: a page ends in one report, whose outcome is what its status and the owner of its
// body say; where the archive cannot take it, it has no record, and where the archive is broken
// nothing is said.
func TestOutcomes(t *testing.T) {
	elsewhere := Answer{Verdict: Known, Original: Original{URL: "http://b.example/", RecordID: "urn:uuid:1"}}
	itself := Answer{Verdict: Known, Original: Original{URL: "http://a.example/", RecordID: "urn:uuid:1"}}
	for _, tt := range []struct {
		name    string
		status  int
		answer  Answer
		refuse  error
		want    link.Outcome
		links   int
		confirm bool
	}{
		{"new", 200, Answer{}, nil, link.OutcomeOK, 1, true},
		{"known", 200, elsewhere, nil, link.OutcomeDuplicate, 1, false},
		{"its own body", 200, itself, nil, link.OutcomeOK, 1, false},
		{"not found", 404, Answer{}, nil, link.OutcomeHTTPError, 0, false},
		{"unarchivable", 200, Answer{}, ErrUnarchivable, link.OutcomeOK, 1, false},
		{"broken", 200, Answer{}, errors.New("disk"), link.OutcomeNone, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newTest(t)
				x.keep, x.refuse, x.verdict = true, tt.refuse, func() Answer { return tt.answer }
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				x.pipe.Run(ctx, &group)
				x.pipe.Push(New(&session.Lease{Host: "a.example"}, &reports.Item{Job: &reports.Job{ID: x.spec.ID, Spec: x.spec}, URL: "http://a.example/"}, &fetch.Response{
					Status: tt.status, Proto: "HTTP/1.1", Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<a href=/1>one</a>"),
				}, x.pipe.BodyMemory(), time.Second, 0))
				time.Sleep(time.Second)
				x.pipe.Close()
				cancel()
				group.Wait()
				if tt.want == link.OutcomeNone {
					if x.broken == nil || len(x.told) > 0 || x.pipe.pages != 1 {
						t.Errorf("%v, %d reports, %d pages in hand", x.broken, len(x.told), x.pipe.pages)
					}
					return
				}
				if len(x.told) != 1 || x.broken != nil || x.pipe.Held() != 0 {
					t.Fatalf("%d reports, %v, %d bytes are held", len(x.told), x.broken, x.pipe.Held())
				}
				r := x.told[0]
				if got := link.Outcome(r.Fetched.GetOutcome()); got != tt.want || len(r.Fetched.GetLinks()) != tt.links || (r.Archived != nil) != tt.confirm {
					t.Errorf("%v with %d links, confirmed %v", got, len(r.Fetched.GetLinks()), r.Archived)
				}
			})
		})
	}
}

// BenchmarkPage is what a page of 38 kB with 150 links, most of them met before, costs between
// exchange and report, the archive aside.
func BenchmarkPage(b *testing.B) {
	x := newTest(b)
	l := x.pipe
	ref := &reports.Job{ID: x.spec.ID, Spec: x.spec}
	var text strings.Builder
	for i := range 150 {
		fmt.Fprintf(&text, `<p>%s <a class="reference internal" href="library/page%d.html#part">page %d</a></p>`+"\n", strings.Repeat("words of the page ", 10), i, i)
	}
	body := []byte(text.String())
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	var e extract.Extractor
	f := reports.NewFollower(l.deps.Known)
	lease := &session.Lease{Host: "a.example"}
	it := &reports.Item{Job: ref, URL: "http://a.example/index.html"}
	one := func() {
		p := New(lease, it, &fetch.Response{
			Status: 200, Proto: "HTTP/1.1", Header: header, Body: body, RequestHead: []byte("GET"), ResponseHead: []byte("HTTP/1.1 200 OK"),
		}, l.BodyMemory(), 0, 0)
		l.read(&e, p)
		l.finish(f, p)
	}
	one()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
}
