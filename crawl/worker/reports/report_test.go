package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// TestAttachSplits: a page with more links than one outcome holds tells the first of them ahead,
// without an outcome, and loses none.
func TestAttachSplits(t *testing.T) {
	it := Item{Job: &Job{}, URL: "http://a.example/map.xml", Kind: link.KindSitemap, Depth: 3}
	r := New(&session.Lease{Host: "a.example"}, &it, link.OutcomeOK)
	n := 2*wire.PieceLinks + 5
	links := selection{urls: make([][]byte, n), kinds: make([]byte, n)}
	for i := range n {
		links.urls[i] = fmt.Appendf(nil, "http://a.example/%d", i)
		links.kinds[i] = byte(i % 2)
	}
	r.attach(links)
	parts := append(slices.Clone(r.Ahead), r)
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	seen := make(map[string]byte)
	for i, part := range parts {
		f := part.Fetched
		want := link.OutcomeNone
		if i == 2 {
			want = link.OutcomeOK
		}
		if err := f.Validate(); err != nil || link.Outcome(f.GetOutcome()) != want || f.GetDepth() != 3 {
			t.Errorf("part %d: %v, outcome %d, depth %d", i, err, f.GetOutcome(), f.GetDepth())
		}
		for k, url := range f.GetLinks() {
			seen[string(url)] = f.GetLinkKind()[k]
		}
	}
	for i := range n {
		if kind, ok := seen[fmt.Sprintf("http://a.example/%d", i)]; !ok || kind != byte(i%2) {
			t.Fatalf("link %d: %v, kind %d", i, ok, kind)
		}
	}
}

// TestClip: a reason is cut to what a message holds, and what is no text is left out of it.
func TestClip(t *testing.T) {
	if got := Clip("bad \xff\xfe" + strings.Repeat("ä", wire.MaxText)); !utf8.ValidString(got) || len(got) > wire.MaxText || !strings.HasPrefix(got, "bad ä") {
		t.Errorf("a reason: %q", got)
	}
}

// only is a job with these seeds that is the only one known, and that asks to be counted.
type only struct {
	spec  *job.Spec
	asked int
}

func (o *only) Spec(_ context.Context, id job.ID) (*job.Spec, error) {
	if o.asked++; id != o.spec.ID {
		return nil, errors.New("no such job")
	}
	return o.spec, nil
}

// TestTell: of the links of a page those are told that the job wants and has in its scope, that are
// to be followed and that the owner is not known to have; until it has acknowledged them they are
// told again.
func TestTell(t *testing.T) {
	spec, err := job.FromWire(&wire.JobSpec{Id: []byte("0123456789abcdef"), Seeds: [][]byte{[]byte("http://a.example/")}})
	if err != nil {
		t.Fatal(err)
	}
	specs := &only{spec: spec}
	jobs := NewJobs(specs)
	ref := jobs.Get(t.Context(), spec.ID)
	if again := jobs.Get(t.Context(), spec.ID); again != ref || specs.asked != 1 {
		t.Errorf("a job was asked for %d times", specs.asked)
	}
	if strange := jobs.Get(t.Context(), job.ID{1}); strange.Spec != nil {
		t.Errorf("an unknown job is %+v", strange)
	}
	known := NewKnown(64)
	f := NewFollower(known)
	tell := func(links ...link.Link) *Report {
		r := New(&session.Lease{Host: "a.example"}, &Item{Job: ref, URL: "http://a.example/"}, link.OutcomeOK)
		n := f.AddLinks(r, ref, "http://a.example/", links)
		if n != len(r.Fetched.GetLinks()) {
			t.Errorf("%d links are told, %d are in the report", n, len(r.Fetched.GetLinks()))
		}
		return r
	}
	page := []link.Link{
		{URL: "http://a.example/1"},
		{URL: "http://b.example/2"},
		{URL: "http://a.example/3", Nofollow: true},
		{URL: "http://a.example/4.png", Kind: link.KindRequisite},
		{URL: "http://a.example/map.xml", Kind: link.KindSitemap},
	}
	want := []string{"http://a.example/1", "http://a.example/map.xml"}
	for range 2 {
		r := tell(page...)
		var got []string
		for _, url := range r.Fetched.GetLinks() {
			got = append(got, string(url))
		}
		if !slices.Equal(got, want) || len(r.Fetched.GetLinkKind()) != 2 {
			t.Errorf("reported %q with kinds %v", got, r.Fetched.GetLinkKind())
		}
	}
	r := tell(page...)
	known.Acknowledged(&r.Report)
	if r := tell(append(page, link.Link{URL: "http://a.example/map.xml"})...); len(r.Fetched.GetLinks()) != 1 {
		t.Errorf("reported %q again: want only the sitemap as a page", r.Fetched.GetLinks())
	}
}
