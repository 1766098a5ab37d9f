package worker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// TestAttachSplits: a page with more links than one outcome holds tells the first of them ahead, without an outcome, and loses none.
func TestAttachSplits(t *testing.T) {
	h := newHost(&session.Lease{Host: "a.example"})
	it := item{job: &jobRef{}, url: "http://a.example/map.xml", kind: link.KindSitemap, depth: 3}
	r := newReport(h, &it, link.OutcomeOK)
	n := 2*wire.PieceLinks + 5
	links := told{urls: make([][]byte, n), kinds: make([]byte, n)}
	for i := range n {
		links.urls[i] = fmt.Appendf(nil, "http://a.example/%d", i)
		links.kinds[i] = byte(i % 2)
	}
	attach(r, links)
	parts := append(slices.Clone(r.ahead), r)
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

// TestRecordUUID reads what an archive calls a record.
func TestRecordUUID(t *testing.T) {
	for _, tt := range []struct {
		urn  string
		want string
	}{
		{"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"},
		{"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0", ""},
		{"urn:uuid:0001020g-0405-0607-0809-0a0b0c0d0e0f", ""},
		{"00010203-0405-0607-0809-0a0b0c0d0e0f", ""},
		{"", ""},
	} {
		if got := recordUUID(tt.urn); string(got) != tt.want {
			t.Errorf("%q: %x", tt.urn, got)
		}
	}
}

// nothing is an archive and an owner of bodies that keep nothing.
type nothing struct{}

func (nothing) Save(*Exchange) (string, error) {
	return "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f", nil
}
func (nothing) Sync() error { return nil }
func (nothing) Claim(_ context.Context, q []Question) ([]Answer, error) {
	return make([]Answer, len(q)), nil
}
func (nothing) Confirm(context.Context, []Confirmation) error { return nil }

// BenchmarkPage is what a page of 38 kB with 150 links, most of them met before, costs between exchange and report, the archive aside.
func BenchmarkPage(b *testing.B) {
	x := newWorld(b, nil, []string{"http://a.example/"}, func(x *world) {
		x.deps.Archive, x.deps.Content, x.deps.Events = nothing{}, nothing{}, nil
	})
	w := x.worker
	ref := w.specs.get(b.Context(), x.spec.ID)
	var text strings.Builder
	for i := range 150 {
		fmt.Fprintf(&text, `<p>%s <a class="reference internal" href="library/page%d.html#part">page %d</a></p>`+"\n", strings.Repeat("words of the page ", 10), i, i)
	}
	body := []byte(text.String())
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	var e extract.Extractor
	f := follower{w: w}
	h := newHost(&session.Lease{Host: "a.example"})
	one := func() {
		p := newPage(h, item{job: ref, url: "http://a.example/index.html"}, &fetch.Response{
			Status: 200, Proto: "HTTP/1.1", Header: header, Body: body, RequestHead: []byte("GET"), ResponseHead: []byte("HTTP/1.1 200 OK"),
		}, new(share))
		w.read(&e, p)
		w.finish(&f, p)
	}
	one()
	told := func() []*session.Report {
		s := w.sessions.Sessions()[0]
		t := w.sessions.Turn(time.Now(), s, s.Ready(), nil)
		w.sessions.Answered(time.Now(), s, t, new(wire.SessionReply), 0, nil)
		return t.Reports
	}
	told()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		one()
		if n++; n%256 == 0 {
			told()
		}
	}
}

// TestPiecesFit: the links of a page are cut into pieces that a message holds, and messages into such as a frame holds.
func TestPiecesFit(t *testing.T) {
	x := newWorld(t, site(1), []string{"http://a.example/"})
	h := newHost(&session.Lease{Host: "a.example"})
	it := item{job: &jobRef{}, url: "http://a.example/map.xml", kind: link.KindSitemap}
	r := newReport(h, &it, link.OutcomeOK)
	r.Fetched.Etag, r.Fetched.Detail = strings.Repeat("e", wire.MaxText), strings.Repeat("d", wire.MaxText)
	links := told{}
	for i := range 60_000 {
		links.urls = append(links.urls, fmt.Appendf(nil, "http://a.example/%s/%d", strings.Repeat("p", 100), i))
	}
	attach(r, links)
	x.worker.mu.Lock()
	defer x.worker.mu.Unlock()
	x.worker.queue(r)
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
	if total != len(links.urls) || messages < 3 {
		t.Errorf("%d links of %d in %d messages", total, len(links.urls), messages)
	}
	short := newReport(h, &it, link.OutcomeOK)
	attach(short, told{urls: slices.Repeat([][]byte{[]byte("http://b.example/")}, extract.MaxLinks)})
	x.worker.queue(short)
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

// TestOnlyText: what a message cannot hold of a site's answer is left out, and does not keep the rest from being sent.
func TestOnlyText(t *testing.T) {
	if got := short("\xe4"); got != "" {
		t.Errorf("a tag that is no text: %q", got)
	}
	if got := short("ä"); got != "ä" {
		t.Errorf("a tag: %q", got)
	}
	if got := clip("bad \xff\xfe" + strings.Repeat("ä", wire.MaxText)); !utf8.ValidString(got) || len(got) > wire.MaxText || !strings.HasPrefix(got, "bad ä") {
		t.Errorf("a reason: %q", got)
	}
	if got := mime("text/\xe4; charset=x"); !utf8.ValidString(got) {
		t.Errorf("a type: %q", got)
	}
}
