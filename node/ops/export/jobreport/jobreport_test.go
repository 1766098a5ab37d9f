package jobreport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export"
)

// ring is a Results of URLs in memory, by peer.
type ring struct {
	control.Results
	urls    map[string][]control.URLLine
	missing []control.Missing
	fail    map[string]error // of the second page of a peer
}

func (r *ring) Archives(_ context.Context, whole bool) (*control.Archives, error) {
	a := &control.Archives{Missing: r.missing}
	for _, id := range slices.Sorted(maps.Keys(r.urls)) {
		a.Peers = append(a.Peers, control.ArchivePeer{Peer: id, Role: "ring"})
	}
	if whole {
		a.Peers = append(a.Peers, control.ArchivePeer{Peer: "worker", Role: "worker"})
	}
	return a, nil
}

func (r *ring) URLs(_ context.Context, peer, after string) (*control.URLPage, error) {
	from := 0
	_, _ = fmt.Sscan(after, &from)
	if from > 0 && r.fail[peer] != nil {
		return nil, r.fail[peer]
	}
	all := r.urls[peer]
	to := min(from+3, len(all))
	page := &control.URLPage{URLs: all[from:to]}
	if to < len(all) {
		page.After = fmt.Sprint(to)
	}
	return page, nil
}

const (
	job   = "aa11"
	root  = "http://a.example/"
	other = "http://b.example/"
)

// crawl is a ring that crawled a job from three seeds, and a page of another job.
func crawl() *ring {
	at := func(s int) string { return fmt.Sprintf("2026-11-29T01:00:%02d.500Z", s) }
	return &ring{urls: map[string][]control.URLLine{
		"p1": {
			{URL: root, Job: job, Outcome: "ok", Status: 200, Kind: "page", Seed: root, Size: 1000, MIME: "text/html", Digest: "sha256:1", Fetched: at(0), Record: "r1", Holder: "p1", LinksLeftOut: 7},
			{URL: root + "x", Job: job, Outcome: "duplicate", Status: 200, Via: root, HopPath: "L", Seed: root, Depth: 1, Size: 1000, MIME: "text/html", Digest: "sha256:1", Fetched: at(2), Record: "r2", Holder: "worker"},
			{URL: root + "gone", Job: job, Outcome: "http_error", Status: 404, Via: root, HopPath: "L", Seed: root, Depth: 1, Fetched: at(59), Record: "r3", Holder: "p9"},
			{URL: root + "gone2", Job: job, Outcome: "http_error", Status: 410, Via: root, HopPath: "L", Seed: root, Depth: 1, Fetched: at(59), Record: "r4", Holder: "p9"},
			{URL: root + "private", Job: job, Outcome: "robots_denied", Via: root, HopPath: "L", Seed: root, Depth: 1, Holder: "p1"},
			{URL: root + "trap", Job: job, Outcome: "trap", Detail: "rule 1", Via: root, HopPath: "L", Seed: root, Depth: 1},
			{URL: root + "old", Job: job, Outcome: "ok", Status: 200, Depth: 2, Size: 5, Digest: "sha256:2", Record: "r5", Holder: "p1"}, // of an earlier version
			{URL: root + "mine", Job: "aa22", Outcome: "ok", Status: 200, Size: 1 << 30, Kind: "page"},
		},
		"p2": {
			{URL: other, Job: job, Outcome: "redirect", Status: 301, Redirect: "https://b.example/", Kind: "page", Seed: other, Fetched: at(3), Record: "r6", Holder: "p1"},
			{URL: "https://b.example/", Job: job, Outcome: "too_large", Status: 200, Hops: 1, Via: other, HopPath: "R", Seed: other, Size: 2000, MIME: "video/mp4", Record: "r7", Holder: "p1"},
			{URL: "http://c.example/", Job: job, Outcome: "dns", Status: link.NameAbsent, Detail: "no such host", Kind: "page", Seed: "http://c.example/"},
		},
	}}
}

func posted(seeds ...string) *control.Job {
	return &control.Job{ID: job, State: "running", Spec: control.JobSpec{URLs: seeds}}
}

func TestReport(t *testing.T) {
	r, err := Make(t.Context(), crawl(), "aa", posted("a.example", "b.example", "c.example", "d.example"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Job != job || r.URLs != 10 || r.Bytes != 4005 || r.Members != 2 || r.Last.Sub(r.First).Seconds() != 59 {
		t.Errorf("totals %+v", r)
	}
	if want := []control.Missing{{Peer: "p9", Records: 2, Error: "is not in the ring"}}; r.Complete || !slices.Equal(r.Missing, want) {
		t.Errorf("missing %v", r.Missing)
	}
	for table, want := range map[string][]string{
		"seeds": {
			root + " urls=5 pages=1 bytes=1000 outcome=ok 200", other + " urls=1 bytes=2000 outcome=redirect 301 detail=https://b.example/",
			"http://c.example/ outcome=dns detail=no such host", "http://d.example/",
		},
		"seed_outcomes": {"ok urls=1 pages=1 bytes=1000", "dns urls=1", "redirect urls=1"},
		"outcomes": {
			"ok urls=2 pages=2 bytes=1005", "http_error urls=2", "too_large urls=1 bytes=2000", "duplicate urls=1 pages=1 bytes=1000", "dns urls=1",
			"redirect urls=1", "robots_denied urls=1", "trap urls=1",
		},
		"statuses": {"200 urls=4 pages=3 bytes=4005", "301 urls=1", "404 urls=1", "410 urls=1"},
		"left_out": {
			"too_large urls=1 bytes=2000 option=--max-body examples=[https://b.example/]", "robots_denied rule=robots.txt of a.example urls=1 examples=[" + root + "private]",
			"trap rule=rule 1 urls=1 option=--trap-rules off examples=[" + root + "trap]",
		},
		"links_left_out": {root + " urls=7"},
		"errors":         {"dns urls=1 detail=no such host examples=[http://c.example/]", "http_error status=404 urls=1 examples=[" + root + "gone]", "http_error status=410 urls=1 examples=[" + root + "gone2]"},
		"dead_links":     {root + " urls=2 examples=[" + root + "gone " + root + "gone2]"},
		"copies":         {"sha256:1 urls=2 pages=2 bytes=2000 examples=[" + root + " " + root + "x]"},
		"hosts":          {"a.example urls=7 pages=3 bytes=2005", "b.example urls=2 bytes=2000", "c.example urls=1"},
		"peers":          {"p1 urls=4 pages=2 bytes=3005", "p9 urls=2", "worker urls=1 pages=1 bytes=1000"},
		"rate": {
			"2026-11-29T01:00:00Z urls=1 pages=1 bytes=1000", "2026-11-29T01:00:02Z urls=2 pages=1 bytes=1000", "2026-11-29T01:00:58Z urls=2",
		},
	} {
		var got []string
		for i := range r.Tables[table].Shown {
			got = append(got, line(t, &r.Tables[table].Shown[i]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if groups := r.Tables[table].Groups; groups != int64(len(want)) {
			t.Errorf("%s: %d groups", table, groups)
		}
	}
	if top := r.Tables["seed_hosts"]; top.URLs != r.URLs || line(t, &top.Shown[len(top.Shown)-1]) != "unknown host=a.example status=200 urls=1 pages=1 bytes=5" && top.Shown[0].Name == "" {
		t.Errorf("seed_hosts %+v", top)
	}
}

// line is a group as name and the other fields that are set, in the order of its JSON.
func line(t *testing.T, g *Group) string {
	t.Helper()
	text := g.Name
	for _, v := range []reflect.Value{reflect.ValueOf(g.key), reflect.ValueOf(*g)} {
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" && name != "name" && !v.Field(i).IsZero() {
				text += fmt.Sprintf(" %s=%v", name, v.Field(i).Interface())
			}
		}
	}
	return text
}

// TestAgreesWithExport: the outcomes, hosts and bytes of the report are those of export urls, also
// when sums are sorted on disk.
func TestAgreesWithExport(t *testing.T) {
	many := &ring{urls: map[string][]control.URLLine{}}
	for i := range 6000 {
		many.urls["p1"] = append(many.urls["p1"], control.URLLine{
			URL: fmt.Sprintf("http://h%d.example/%d", i%1500, i), Job: job, Outcome: link.Outcome(i % link.Outcomes).String(), Status: 200, Size: uint64(i), //nolint:gosec // small
			MIME: fmt.Sprintf("type/%d", i%70), Digest: fmt.Sprint("sha256:", i%4000), Fetched: fmt.Sprintf("2026-11-%02dT00:00:00Z", i%28+1), Record: "r", Holder: fmt.Sprint("p", i%3),
			Seed: fmt.Sprintf("http://h%d.example/", i%2000), Via: root, HopPath: "L", Depth: 1,
		})
	}
	for name, src := range map[string]*ring{"small": crawl(), "large": many} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if _, err := export.Run(t.Context(), src, export.Options{What: export.URLs, Filter: export.Filter{Job: []string{job}}, Stream: &b}); err != nil {
				t.Fatal(err)
			}
			outcomes, hosts, total := map[string]int64{}, map[string]int64{}, int64(0)
			for raw := range bytes.Lines(b.Bytes()) {
				var l control.URLLine
				if err := json.Unmarshal(raw, &l); err != nil {
					t.Fatal(err)
				}
				outcomes[l.Outcome]++
				hosts[link.Host(l.URL)]++
				total += int64(l.Size) //nolint:gosec // small
			}
			r, err := Make(t.Context(), src, job, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, g := range r.Tables["outcomes"].Shown {
				got[g.Name] = g.URLs
			}
			if !maps.Equal(got, outcomes) || r.Bytes != total {
				t.Errorf("outcomes %v, want %v; %d bytes, want %d", got, outcomes, r.Bytes, total)
			}
			if h := r.Tables["hosts"]; h.Groups != int64(len(hosts)) || h.URLs != r.URLs || len(h.Shown) != min(len(hosts), maxShown) {
				t.Errorf("%d hosts, want %d", h.Groups, len(hosts))
			}
			for _, g := range r.Tables["hosts"].Shown {
				if hosts[g.Name] != g.URLs {
					t.Errorf("%s: %d URLs, want %d", g.Name, g.URLs, hosts[g.Name])
				}
			}
			if rate := r.Tables["rate"]; rate.Groups > intervals {
				t.Errorf("%d intervals", rate.Groups)
			}
			if name == "large" && (r.Tables["seeds"].Groups != 2000 || r.Tables["mime"].Groups != 70 || r.Tables["rate"].URLs != 6000) {
				t.Errorf("%d seeds, %d types, %d fetches", r.Tables["seeds"].Groups, r.Tables["mime"].Groups, r.Tables["rate"].URLs)
			}
		})
	}
}

func TestNoReport(t *testing.T) {
	two := crawl()
	lost := &control.Error{Kind: control.KindNoPeer, Text: "gone"}
	for name, c := range map[string]struct {
		id     string
		posted *control.Job
		fail   error
		want   string
	}{
		"unknown":            {"bb", nil, nil, `job "bb": no finished URL of this peer; without a running peer only its own URLs are known`},
		"ambiguous":          {"aa", nil, nil, `job "aa": ambiguous ID prefix of aa11 and aa22; use more digits`},
		"local peer is lost": {job, posted(), lost, "gone"},
	} {
		two.fail = map[string]error{"p1": c.fail}
		if _, err := Make(t.Context(), two, c.id, c.posted); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	two.fail = map[string]error{"p1": errors.New("no answer")}
	r, err := Make(t.Context(), two, job, posted())
	if err != nil || r.Complete || r.Missing[0] != (control.Missing{Peer: "p1", Error: "its URLs: no answer"}) {
		t.Errorf("a peer that stopped: %v, %v", r.Missing, err)
	}
	two.fail, two.missing = nil, []control.Missing{{Peer: "p9", Error: "no answer"}}
	if r, err = Make(t.Context(), two, job, posted()); err != nil || !slices.Equal(r.Missing, []control.Missing{{Peer: "p9", Records: 2, Error: "no answer"}}) {
		t.Errorf("a missing peer: %v, %v", r.Missing, err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(dir); control.KindOf(err) != control.KindUsage {
		t.Errorf("replaced a report: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil || !json.Valid(raw) {
		t.Errorf("document: %s, %v", raw, err)
	}
}

// forms checks both forms of a report of one URL with these texts.
func forms(t *testing.T, texts ...string) {
	t.Helper()
	at := func(i int) string { return texts[i%len(texts)] }
	l := control.URLLine{
		URL: at(0), Job: job, Outcome: "ok", Status: 200, Kind: "page", Redirect: at(1), Detail: at(2), Via: at(3), Seed: at(4), MIME: at(5), Digest: at(6), Holder: at(7), Record: "r",
		Size: 1, Fetched: "2026-11-29T01:00:00Z",
	}
	list := []control.URLLine{l}
	for _, outcome := range []string{"duplicate", "trap", "dns", "http_error", "robots_denied"} {
		l.Outcome, l.Via, l.HopPath, l.Status, l.LinksLeftOut = outcome, at(3), "L", 404, 1
		list = append(list, l)
	}
	r, err := Make(t.Context(), &ring{urls: map[string][]control.URLLine{at(8): list}, missing: []control.Missing{{Peer: "p2", Error: at(9)}}}, job, &control.Job{ID: job, State: at(10)})
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	if err := errors.Join(r.Text(&text), r.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	facts := false
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		facts = facts || strings.HasPrefix(line, "  state") // before are the missing peers, whose errors are wrapped and not cut
		if facts && utf8.RuneCountInString(line) > textWidth {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
		if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("unprintable: %q", line)
		}
	}
	root, err := html.Parse(&page)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		for _, a := range n.Attr {
			local := a.Key == "href" && strings.HasPrefix(a.Val, "#s")
			if slices.Contains([]string{"src", "href", "xlink:href", "style", "srcset", "action"}, a.Key) && !local || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	for _, name := range []string{"html", "head", "body", "title", "style", "h1", "nav"} {
		if count[name] != 1 {
			t.Errorf("%d <%s>", count[name], name)
		}
		delete(count, name)
	}
	for name := range count {
		if !slices.Contains([]string{"meta", "p", "a", "section", "h2", "table", "tbody", "tr", "th", "td", "svg", "rect"}, name) {
			t.Errorf("<%s>", name)
		}
	}
}

var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</title></style><script>", "javascript:alert(1)", "http://x.example/{{.Job}}", "\x00\x1b[31m\u202e\r\nhead: x",
	strings.Repeat("http://long.example/", 1000), "\xff\xfe", "' onload='x", "--></svg><iframe src=//x>", strings.Repeat("é漢", 300),
}

// TestHostileTexts: whatever a site sends is text, in HTML and for a terminal.
func TestHostileTexts(t *testing.T) {
	for i := range hostile {
		forms(t, append(slices.Clone(hostile[i:]), hostile[:i]...)...)
	}
}

func FuzzForms(f *testing.F) {
	for i := range hostile {
		f.Add(hostile[i], hostile[(i+3)%len(hostile)], hostile[(i+5)%len(hostile)])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) { forms(t, a, b, c) })
}
