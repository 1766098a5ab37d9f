package worker

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
)

// visitAgain crawls a page, grants it once more as a Revisit with what was reported, which change
// modifies, and returns the report and the record of the second visit.
func visitAgain(t *testing.T, x *world, url string, change func(*wire.Revisit)) (first, second *wire.Fetched, saved *pages.Exchange) {
	t.Helper()
	h, since := x.host(link.Host(url)), time.Now()
	if err := x.run(func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if f := h.done[url]; first == nil && f != nil && time.Since(since) > time.Second { // its body is confirmed
			first = f
			r := &wire.Revisit{
				Etag: f.GetEtag(), LastModified: f.GetLastModified(), Digest: f.GetDigest(), Content: f.GetContent(), RecordId: f.GetRecordId(),
				FetchedMs: f.GetFetchedMs(), Visits: 4,
			}
			change(r)
			h.before = map[string]*wire.Revisit{url: r}
			h.pending = append(h.pending, testURL{url: url})
			delete(h.done, url)
			go x.offerAll()
		}
		second = h.done[url]
		return first != nil && second != nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range x.archive.saved {
		if e := &x.archive.saved[i]; e.URL == url && e.Visit > 0 {
			saved = e
		}
	}
	return first, second, saved
}

// TestRevisit checks what a worker requests, reports and archives of a page that was fetched
// before.
func TestRevisit(t *testing.T) {
	const (
		url      = "http://a.example/"
		page     = `<title>t</title>words of the page <a href="/1">one</a>`
		modified = "Tue, 01 Dec 2026 08:00:00 GMT"
	)
	unchanged := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Etag", `"v2"`)
		rw.WriteHeader(http.StatusNotModified)
	}
	body := func(s string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(s)) }
	}
	none := func(*wire.Revisit) {}
	for _, tt := range []struct {
		name          string
		owner         func(*wire.Revisit)
		site          http.HandlerFunc
		match, since  string // conditions of the request
		outcome       link.Outcome
		change        pages.Change
		links         int
		record, begun bool // it is archived, as a revisit
	}{
		{"304", none, unchanged, `"v1"`, modified, link.OutcomeDuplicate, pages.NotModified, 0, true, true},
		{"304 to the time alone", func(r *wire.Revisit) { r.Etag = "" }, unchanged, "", modified, link.OutcomeDuplicate, pages.NotModified, 0, true, true},
		{"304 of unknown content", func(r *wire.Revisit) { r.Digest, r.Content = nil, 0 }, unchanged, `"v1"`, modified, link.OutcomeDuplicate, pages.NotModified, 0, true, true},
		{"304 without a condition", func(r *wire.Revisit) { r.Etag, r.LastModified = "", "" }, unchanged, "", "", link.OutcomeHTTPError, pages.UnknownChange, 0, true, false},
		{"304 and fields that no request may have", func(r *wire.Revisit) { r.Etag, r.LastModified = "\"v1\"\r\nX: y", "a\x00" }, unchanged, "", "", link.OutcomeHTTPError, pages.UnknownChange, 0, true, false},
		{"same body", none, body(page), `"v1"`, modified, link.OutcomeDuplicate, pages.SameBody, 0, true, true},
		{"other script", none, body(page + "<script>nonce</script>"), `"v1"`, modified, link.OutcomeOK, pages.OtherBody, 0, true, false},
		{"other text", none, body(page + "more"), `"v1"`, modified, link.OutcomeOK, pages.OtherText, 1, true, false},
		{"other link", none, body(page + `<a href="/2"></a>`), `"v1"`, modified, link.OutcomeOK, pages.OtherText, 2, true, false},
		{"other body, content unknown", func(r *wire.Revisit) { r.Content = 0 }, body(page + "<!-- -->"), `"v1"`, modified, link.OutcomeOK, pages.OtherText, 1, true, false},
		{"digest unknown", func(r *wire.Revisit) { r.Digest = nil }, body(page), `"v1"`, modified, link.OutcomeOK, pages.UnknownChange, 1, true, true},
		{"not found", none, http.NotFound, `"v1"`, modified, link.OutcomeHTTPError, pages.UnknownChange, 0, true, false},
		{"redirect", none, func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/3", http.StatusFound) }, `"v1"`, modified, link.OutcomeRedirect, pages.UnknownChange, 1, true, false},
		{"noindex", none, body(page + `<meta name=robots content=noindex>`), `"v1"`, modified, link.OutcomeNoIndex, "", 1, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				visits := 0
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Content-Type", "text/html")
					switch {
					case r.URL.Path != "/":
						http.NotFound(rw, r)
					case visits == 0:
						visits++
						rw.Header().Set("Etag", `"v1"`)
						rw.Header().Set("Last-Modified", modified)
						body(page)(rw, r)
					default:
						visits++
						if got := r.Header.Get("If-None-Match"); got != tt.match {
							t.Errorf("If-None-Match: %q, want %q", got, tt.match)
						}
						if got := r.Header.Get("If-Modified-Since"); got != tt.since {
							t.Errorf("If-Modified-Since: %q, want %q", got, tt.since)
						}
						tt.site(rw, r)
					}
				}, []string{url}, withSpec(func(m *wire.JobSpec) { m.HasMaxDepth, m.MaxDepth = true, 1 })) // every link of a page is reported
				first, f, saved := visitAgain(t, x, url, tt.owner)
				if first.GetAgain() || first.GetContent() == 0 || len(first.GetLinks()) != 1 {
					t.Errorf("first report: %v", first)
				}
				if got := link.Outcome(f.GetOutcome()); got != tt.outcome || !f.GetAgain() || len(f.GetLinks()) != tt.links {
					t.Errorf("%v again %v with %d links, want %v with %d: %v", got, f.GetAgain(), len(f.GetLinks()), tt.outcome, tt.links, f)
				}
				if (saved != nil) != tt.record {
					t.Fatalf("record %+v, want one: %v", saved, tt.record)
				}
				r := x.host("a.example").before[url]
				if saved != nil && (saved.Change != tt.change || saved.Visit != 5 || !bytes.Equal(saved.Before, r.GetDigest()) || (saved.RevisitOf != nil) != tt.begun) {
					t.Errorf("visit %d is %q of %x, a revisit of %v", saved.Visit, saved.Change, saved.Before, saved.RevisitOf)
				}
				stats := x.worker.Stats()
				if want := map[bool]int64{true: 1}[tt.change == pages.NotModified]; stats.Revisits != 1 || stats.NotModified != want {
					t.Errorf("%d revisits, %d not modified, want 1 and %d", stats.Revisits, stats.NotModified, want)
				}
				switch {
				case tt.change == pages.NotModified:
					if !bytes.Equal(f.GetDigest(), r.GetDigest()) || f.GetContent() != r.GetContent() || f.GetEtag() != `"v2"` || f.GetLastModified() != r.GetLastModified() ||
						len(f.GetRecordId()) != 16 || bytes.Equal(f.GetRecordId(), r.GetRecordId()) {
						t.Errorf("report of a 304: %v", f)
					}
					if of := saved.RevisitOf; of.URL != url || !of.Date.Equal(time.UnixMilli(r.GetFetchedMs())) || of.RecordID != "urn:uuid:00000000-0000-0000-0000-000000000001" {
						t.Errorf("refers to %+v", *of)
					}
					t.Logf("the report of a 304 has %d bytes", proto.Size(f))
				case f.GetStatus() == http.StatusNotModified:
					if f.GetDetail() != "status 304 without a condition" {
						t.Errorf("detail %q", f.GetDetail())
					}
				case tt.change == pages.SameBody:
					if sum := sha256.Sum256([]byte(page)); !bytes.Equal(f.GetDigest(), sum[:]) || f.GetContent() != first.GetContent() {
						t.Errorf("report of the same body: %v", f)
					}
					t.Logf("the report of an unchanged page has %d bytes, the body %d", proto.Size(f), f.GetSize())
				}
			})
		})
	}
}

// TestRevisitWeighs checks that what an owner grants of earlier visits counts as memory of windows.
func TestRevisitWeighs(t *testing.T) {
	const url = "http://a.example/"
	weight := func(r *wire.Revisit) (bytes int64) {
		crawltest.Bubble(t, func(t *testing.T) {
			x := newWorld(t, http.NotFound, []string{url})
			g := &wire.Grant{Host: "a.example", Epoch: &wire.Epoch{Counter: 1}, JobIds: [][]byte{x.spec.ID[:]}, Url: [][]byte{[]byte(url)}, Job: []uint32{0}}
			if r != nil {
				g.Revisits = []*wire.Revisit{r}
			}
			x.worker.Offer("owner", []string{"a.example"})
			s := x.worker.sessions.Sessions()[0]
			turn := x.worker.sessions.Turn(time.Now(), s, 0, nil)
			x.worker.sessions.Answered(time.Now(), s, turn, &wire.SessionReply{TtlMs: 8000, Grants: []*wire.Grant{g}}, x.worker.clock.Now(), nil)
			bytes, _, _ = x.worker.visits.Weight()
		})
		return bytes
	}
	if with, without := weight(&wire.Revisit{Etag: string(make([]byte, 900)), Digest: make([]byte, 32)}), weight(nil); with < without+932 {
		t.Errorf("weight %d with a Revisit of over 932 bytes, %d without", with, without)
	}
}

// TestRevisitReportSize checks what a later visit of a page costs between worker and owner, for a
// page of usual size: at most a twentieth of its body, whether it has changed or not. The worker
// fetched it before, so the owner has its links.
func TestRevisitReportSize(t *testing.T) {
	const path = "/s3/3.html"
	web := webgen.New(webgen.Config{Seed: 1, Hosts: 1, PagesPerHost: 1000, Domain: "web.localhost"})
	for _, tt := range []struct {
		name   string
		change pages.Change
	}{{"unchanged", pages.NotModified}, {"the same body", pages.SameBody}, {"changed", pages.OtherText}} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				visits := 0
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != path {
						http.NotFound(rw, r)
						return
					}
					visits++
					if visits > 1 && tt.change == pages.NotModified {
						rw.WriteHeader(http.StatusNotModified)
						return
					}
					r.Host = "h0.web.localhost"
					got := httptest.NewRecorder()
					web.Handler().ServeHTTP(got, r)
					if visits > 1 && tt.change == pages.OtherText {
						got.Body.WriteString("<p>one sentence more")
					}
					rw.Header().Set("Etag", `"1"`)
					rw.Header().Set("Content-Type", "text/html")
					_, _ = rw.Write(got.Body.Bytes())
				}, []string{"http://a.example" + path})
				first, f, saved := visitAgain(t, x, "http://a.example"+path, func(*wire.Revisit) {})
				if saved == nil || saved.Change != tt.change {
					t.Fatalf("archived: %v", saved != nil)
				}
				size, body := proto.Size(f), first.GetSize()
				t.Logf("%d bytes for a body of %d with %d links, 1/%d; %d with all links", size, body, len(first.GetLinks()), body/uint64(size), proto.Size(first))
				if uint64(size)*20 > body {
					t.Errorf("a report of %d bytes for a body of %d: more than 1/20", size, body)
				}
			})
		})
	}
}
