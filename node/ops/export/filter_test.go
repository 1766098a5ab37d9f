package export

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/table"
	"github.com/apoidea/apoidea/storage/warc"
)

var (
	jobA, jobB = strings.Repeat("a1", 16), strings.Repeat("b2", 16)
	baseTime   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// exchanges are n exchanges of a host whose jobs, outcomes, statuses, types and times differ.
func exchanges(host string, n int) (list []*warc.Exchange) {
	for i := range n {
		body := fmt.Appendf(nil, "%s %d", host, i)
		head := []string{"200 OK\r\nContent-Type: text/html", "404 Not Found\r\nContent-Type: text/html; charset=utf-8", "301 Moved\r\nLocation: /new", "200 OK\r\nContent-Type: image/png"}[i%4]
		x := &warc.Exchange{
			URL: fmt.Sprintf("http://%s/%c/%d?q=%d", host, 'a'+i%2, i, i), Date: baseTime.Add(time.Duration(i) * time.Hour), Request: []byte("GET / HTTP/1.1\r\n\r\n"),
			ResponseHead: []byte("HTTP/1.1 " + head + "\r\n\r\n"), Body: body, PayloadDigest: sha256.Sum256(body),
			Outlinks: []string{fmt.Sprintf("http://%s/to/%d", host, i)},
			Fields:   [][]warc.Field{{{Name: "job", Value: jobA}}, {{Name: "job", Value: jobB}}, nil}[i%3],
		}
		x.Fields = append(x.Fields, warc.Field{Name: "visit", Value: fmt.Sprint(i + 1)}, warc.Field{Name: "change", Value: []string{"text", "body", "same", "not-modified", "unknown"}[i%5]})
		if i%5 < 3 {
			x.Fields = append(x.Fields, warc.Field{Name: "outcome", Value: []string{"ok", "http_error", "duplicate"}[i%5]})
		}
		if i%7 == 6 {
			x.RevisitOf = &warc.Original{URL: x.URL, Date: x.Date}
		}
		list = append(list, x)
	}
	return list
}

func archiveOf(t testing.TB, c warc.Compression, list []*warc.Exchange) []byte {
	t.Helper()
	dir := t.TempDir()
	w, err := warc.Open(dir, warc.Config{Compression: c})
	if err != nil {
		t.Fatal(err)
	}
	enc := warc.NewEncoder(c)
	for _, x := range list {
		m, err := enc.Exchange(x)
		if err == nil {
			_, err = w.Append(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	paths, err := warc.Files(dir, false)
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// mixedWorld has files with an index, without one, with a corrupt one and with one of fewer
// records, and an open file that ends within a metadata record. The first peer lists URLs.
func mixedWorld(t *testing.T) *listed1 {
	t.Helper()
	list := exchanges("a.example", 41)
	a, b := archiveOf(t, warc.Gzip, list), archiveOf(t, warc.Zstd, exchanges("b.example:8080", 23))
	c, d := archiveOf(t, warc.None, exchanges("c.example", 9)), archiveOf(t, warc.Gzip, exchanges("www.d.example", 11))
	half := bytes.SplitAfter(index(t, d, "4.warc.gz"), []byte("\n"))
	w := &listed1{ring: &ring{left: -1, files: map[string]map[string][]byte{
		"p1": {"1.warc.gz": a, "1.cdxj": index(t, a, "1.warc.gz"), "2.warc.zst": b},
		"p2": {"3.warc.open": c[:len(c)-9], "4.warc.gz": d, "4.cdxj": bytes.Join(half[:5], nil), "5.warc.gz": a, "5.cdxj": []byte("x\n")},
	}}}
	for i, x := range list {
		l := control.URLLine{URL: x.URL, Job: []string{jobA, jobB, ""}[i%3], Outcome: []string{"ok", "http_error", "none", "trap"}[i%4]}
		if i%4 < 2 {
			l.Fetched, l.MIME, l.Status = x.Date.Format("2006-01-02T15:04:05.000Z"), "text/html", []int{200, 404}[i%2]
		}
		w.lines = append(w.lines, l)
	}
	return w
}

// result returns what an export has, each item once for each occurrence, without warcinfo records
// and without what depends on the other items.
func result(t *testing.T, what string, raw []byte) (items []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	switch what {
	case Links:
		return lines[1:]
	case CDXJ:
		parsed, err := warc.ParseIndex(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range parsed {
			l.Offset, l.File = 0, ""
			items = append(items, fmt.Sprintf("%+v", l))
		}
	case URLs, CrawlLog, TextLines, Changes:
		return lines
	case WARC, WET:
		r := warc.NewReader(bytes.NewReader(raw), true)
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				return items
			}
			if err != nil {
				t.Fatal(err)
			}
			if what == WET && rec.Type == warc.TypeConversion {
				items = append(items, rec.Get("WARC-Refers-To")+" "+rec.Get("WARC-Block-Digest"))
			} else if rec.Type != warc.TypeWarcinfo {
				items = append(items, string(rec.Type)+" "+rec.ID)
			}
		}
	case WACZ:
		z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			part, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(f.Name, waczArchive):
				items = append(items, result(t, WARC, part)...)
			case f.Name == waczIndex:
				items = append(items, result(t, CDXJ, part)...)
			case f.Name == waczPages:
				for line := range strings.Lines(string(part)) {
					if _, page, ok := strings.Cut(line, `"url"`); ok {
						items = append(items, page)
					}
				}
			}
		}
	}
	return items
}

// run exports with a filter. An export of nothing has no output.
func run(t *testing.T, src control.Results, what string, f Filter) []string {
	t.Helper()
	var b bytes.Buffer
	o := Options{What: what, Filter: f, Stream: &b, All: what == Changes}
	if what == Parquet {
		o.Output, o.Tables = filepath.Join(t.TempDir(), "out"), []string{TableURLs, TableLinks}
	}
	r, err := Run(t.Context(), src, o)
	if errors.Is(err, ErrEmpty) && b.Len() == 0 {
		return nil
	}
	if err != nil || !r.Complete || (r.Filter == nil) != f.Empty() {
		t.Fatalf("%s %s: %+v, %v", what, &f, r, err)
	}
	if what == Parquet {
		return tableRows(t, o.Output)
	}
	return result(t, what, b.Bytes())
}

// tableRows returns the rows of an export of Parquet, with their partition or table.
func tableRows(t *testing.T, dir string) (items []string) {
	t.Helper()
	for part, links := range rowsIn[table.Link](t, filepath.Join(dir, TableLinks)) {
		for i := range links {
			items = append(items, fmt.Sprintf("%s %+v", part, links[i]))
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, TableLinks)); err != nil {
		t.Fatal(err)
	}
	for part, urls := range rowsIn[table.URL](t, dir) {
		for i := range urls {
			if u := &urls[i]; u.Depth != nil {
				items, u.Depth = append(items, fmt.Sprintf("depth %d", *u.Depth)), nil
			}
			items = append(items, fmt.Sprintf("%s %+v", part, urls[i]))
		}
	}
	return items
}

// TestPartsAreTheWhole checks for each kind that exports of disjoint filters that leave nothing out
// have the records of an export without a filter, each as often.
func TestPartsAreTheWhole(t *testing.T) {
	at := func(hours int) time.Time { return baseTime.Add(time.Duration(hours) * time.Hour) }
	partitions := map[string][]Filter{
		"job":     {{Job: []string{jobA}}, {Job: []string{jobB[:4]}}, {Job: []string{None}}},
		"host":    {{Host: []string{"a.example"}}, {Host: []string{"b.*", "c.*"}}, {Host: []string{"*.d.example"}}},
		"path":    {{Path: []string{"/a/*"}}, {Path: []string{"/b/*"}}},
		"status":  {{Status: []string{"2XX"}}, {Status: []string{"404", "301"}}, {Status: []string{None}}},
		"mime":    {{MIME: []string{"text/html"}}, {MIME: []string{"Image/*"}}, {MIME: []string{"warc/revisit", None}}},
		"outcome": {{Outcome: []string{"ok", "trap"}}, {Outcome: []string{"http_error"}}, {Outcome: []string{"duplicate"}}, {Outcome: []string{None}}},
		"time":    {{Until: at(3)}, {Since: at(3), Until: at(20)}, {Since: at(20), Until: at(21)}, {Since: at(21)}},
	}
	for _, what := range Kinds() {
		t.Run(what, func(t *testing.T) { // takes seconds: an export for each part
			t.Parallel()
			src := mixedWorld(t)
			whole := run(t, src, what, Filter{})
			slices.Sort(whole)
			pages := what == TextLines || what == WET // of successful responses with a text only
			if len(whole) < 41 && !(pages && len(whole) == 31) {
				t.Fatalf("%s: %d items", what, len(whole))
			}
			for by, parts := range partitions {
				var union []string
				for _, f := range parts {
					part := run(t, src, what, f)
					if len(part) == len(whole) && by != "path" && !((what == URLs || what == CrawlLog) && by == "host") && !(pages && (by == "status" || by == "mime")) {
						t.Errorf("%s by %s: %s selects everything", what, by, &f)
					}
					union = append(union, part...)
				}
				slices.Sort(union)
				if !slices.Equal(union, whole) {
					t.Errorf("%s by %s: %d items of %d", what, by, len(union), len(whole))
				}
			}
		})
	}
}

// TestFiltersCombine checks an index that several conditions select against each line of the whole.
func TestFiltersCombine(t *testing.T) {
	src := mixedWorld(t)
	f := Filter{Job: []string{jobA, jobB}, Host: []string{"b.example", "*.d.example", "a.example"}, Status: []string{"2xx"}, Path: []string{"/a/*"}, Since: baseTime.Add(2 * time.Hour)}
	var want []string
	for _, item := range run(t, src, CDXJ, Filter{}) {
		if (strings.Contains(item, jobA) || strings.Contains(item, jobB)) && !strings.Contains(item, "c.example") && strings.Contains(item, "/a/") &&
			strings.Contains(item, "Status:200") && !strings.Contains(item, "2026-03-01 12:") && !strings.Contains(item, "2026-03-01 13:") {
			want = append(want, item)
		}
	}
	got := run(t, src, CDXJ, f)
	slices.Sort(got)
	if slices.Sort(want); len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// TestFilteredIndexBelongs checks that the index and the file of one filter belong together.
func TestFilteredIndexBelongs(t *testing.T) {
	src, f := mixedWorld(t), Filter{Host: []string{"a.example", "b.example"}, MIME: []string{"image/*"}}
	var file, lines bytes.Buffer
	for what, to := range map[string]*bytes.Buffer{WARC: &file, CDXJ: &lines} {
		if _, err := Run(t.Context(), src, Options{What: what, Filter: f, Stream: to}); err != nil {
			t.Fatal(err)
		}
	}
	if n := leads(t, lines.Bytes(), DefaultOf, file.Bytes()); n < 10 {
		t.Errorf("%d lines", n)
	}
}

// TestEmptyResultLeavesNothing checks the error and the files of an export that selects nothing.
func TestEmptyResultLeavesNothing(t *testing.T) {
	for _, what := range Kinds() {
		dir := t.TempDir()
		_, err := Run(t.Context(), mixedWorld(t), Options{What: what, Output: filepath.Join(dir, "out"), Filter: Filter{Host: []string{"nowhere.example"}, Status: []string{"404"}}})
		if !errors.Is(err, ErrEmpty) || control.KindOf(err) != control.KindFailed || !strings.HasSuffix(err.Error(), "nothing matches --host nowhere.example --status 404") {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%s left %v, %v", what, left, err)
		}
	}
}

func TestFilterCheck(t *testing.T) {
	for want, f := range map[string]Filter{
		"":                                {Job: []string{"A1", None}, Host: []string{"*.Example.org"}, Status: []string{"4XX", "200", None}, Outcome: []string{"OK"}, MIME: []string{"TEXT/*"}},
		`--job "xyz": must be a job ID`:   {Job: []string{jobA, "xyz"}},
		`--job "": must`:                  {Job: []string{""}},
		`--status "40": must be a status`: {Status: []string{"40"}},
		`--status "4x4"`:                  {Status: []string{"4x4"}},
		`--path "docs/*": must be`:        {Path: []string{"docs/*"}},
		`--outcome "good": must be one of none, ok, duplicate`: {Outcome: []string{"good"}},
		"--since 2026-03-01T12:00:00Z: must be before --until": {Since: baseTime, Until: baseTime},
	} {
		err := f.Check()
		if want == "" {
			if err != nil || f.Job[0] != "a1" || f.Host[0] != "*.example.org" || f.Status[0] != "4xx" {
				t.Errorf("%v: %+v", err, f)
			}
		} else if control.KindOf(err) != control.KindUsage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFilterMatch(t *testing.T) {
	s := Subject{Job: jobA, Outcome: "ok", Host: "www.a.example:8080", Path: "/docs/a/b.html", Status: 404, MIME: "text/html", Time: baseTime}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Host: []string{"www.a.example"}}, true},
		{Filter{Host: []string{"www.a.example:8080"}}, true},
		{Filter{Host: []string{"www.a.example:80"}}, false},
		{Filter{Host: []string{"*.example"}}, true},
		{Filter{Host: []string{"a.example"}}, false},
		{Filter{Host: []string{"b", "w*.a.*"}}, true},
		{Filter{Path: []string{"/docs/*.html"}}, true},
		{Filter{Path: []string{"/docs/"}}, false},
		{Filter{Path: []string{"*a*a*"}}, false},
		{Filter{Path: []string{"*docs*docs*"}}, false},
		{Filter{Status: []string{"4xx"}}, true},
		{Filter{Status: []string{"403"}}, false},
		{Filter{Status: []string{None}}, false},
		{Filter{MIME: []string{"*/html"}}, true},
		{Filter{Job: []string{"a1a"}}, true},
		{Filter{Job: []string{None}}, false},
		{Filter{Outcome: []string{"o"}}, false},
		{Filter{Since: baseTime}, true},
		{Filter{Until: baseTime}, false},
		{Filter{Host: []string{"www.a.example"}, Status: []string{"2xx"}}, false},
	} {
		if got := c.f.Match(&s); got != c.want {
			t.Errorf("%s: %v", &c.f, got)
		}
	}
	if six := (Subject{Host: "[::1]:8080"}); !(&Filter{Host: []string{"[::1]"}}).Match(&six) {
		t.Error("an IPv6 address with a port is not matched without it")
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-02-01": "2026-02-01T00:00:00Z", "2026-02-01T03:04:05+01:00": "2026-02-01T02:04:05Z", "24h": "2026-02-28T12:00:00Z", "7d": "2026-02-22T12:00:00Z",
		"90m": "2026-03-01T10:30:00Z", "yesterday": "", "2026-13-01": "", "-1h": "", "-1d": "", "": "", "d": "",
	} {
		got, err := ParseTime(text, baseTime)
		if (err == nil) != (want != "") || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "must be a date") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFilteredLosses checks that lost records and corrupt parts count if the filter selects them.
func TestFilteredLosses(t *testing.T) {
	build := func() *listed1 {
		src := &listed1{ring: world(t)}
		for i, at := range idsOf(t, src.files["p1"]["1.warc.gz"]) {
			l := control.URLLine{URL: at[1], Record: at[0], Holder: "p1", Fetched: "2023-11-14T22:13:20.000Z", Job: jobA, Outcome: "ok"}
			if i > 4 {
				l.Job = jobB
			}
			src.lines = append(src.lines, l)
		}
		return src
	}
	lost := build()
	delete(lost.files["p1"], "1.warc.gz")
	for f, want := range map[*Filter]int64{{Job: []string{jobB, None}}: 2, {Path: []string{"/3"}}: 1, {Host: []string{"b.example"}}: 0} {
		r, err := Run(t.Context(), lost, Options{What: WARC, Filter: *f, Stream: io.Discard})
		if err != nil || r.LostTotal != want || r.Complete != (want == 0) {
			t.Errorf("%s: %+v, %v", f, r, err)
		}
	}
	corrupt := build()
	raw := corrupt.files["p1"]["1.warc.gz"]
	at := offsets(t, raw)
	copy(raw[at[6]+5:], bytes.Repeat([]byte{0xaa}, 20)) // the metadata of the second page, /6
	for glob, want := range map[string]int{"/6": 1, "/5": 0, "*": 1} {
		r, err := Run(t.Context(), corrupt, Options{What: WARC, Filter: Filter{Path: []string{glob}, Host: []string{"a.example"}}, Stream: io.Discard})
		if err != nil || len(r.Damaged) != want || r.LostTotal != 0 {
			t.Errorf("%s: %+v, %v", glob, r, err)
		}
	}
	forged := build()
	damageSecond(t, forged.files["p1"]["1.warc.gz"])
	for glob, want := range map[string]int{"/7": 1, "/5": 0} {
		r, err := Run(t.Context(), forged, Options{What: CDXJ, Filter: Filter{Path: []string{glob}}, Stream: io.Discard})
		if want == 1 && !errors.Is(err, ErrEmpty) || want == 0 && err != nil || len(r.Damaged) != 0 && want == 0 {
			t.Errorf("%s: %+v, %v", glob, r, err)
		}
	}
}

// TestFilterOfBrokenSource checks that a file that breaks off while it is indexed is read again.
func TestFilterOfBrokenSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &flaky{Results: mixedWorld(t), left: 2}
		got := run(t, src, CDXJ, Filter{Job: []string{jobA}})
		if want := run(t, mixedWorld(t), CDXJ, Filter{Job: []string{jobA}}); len(got) != len(want) || src.left != 0 {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	})
}

// flaky breaks off the first reads of a file without an index, from its second record on.
type flaky struct {
	control.Results
	left int
}

func (f *flaky) ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error {
	if name == "2.warc.zst" && offset > 0 && f.left > 0 {
		f.left--
		return &control.Error{Kind: control.KindFailed, Text: "connection lost"}
	}
	return f.Results.ReadArchive(ctx, peer, name, offset, w)
}

func FuzzFilter(f *testing.F) {
	f.Add("*.a.example", "http://www.a.example:8080/b?c", "4xx", "404")
	f.Add("[::1]", "http://[::1]:80/", "none", "-")
	f.Fuzz(func(t *testing.T, glob, url, status, got string) {
		all := Filter{Host: []string{"*"}, Path: []string{"*"}}
		l := warc.IndexLine{URL: url, Status: got}
		s := SubjectOfLine(&l)
		if !all.Match(&s) {
			t.Errorf("%q is not matched by *", url)
		}
		some := Filter{Host: []string{glob}, Status: []string{status}}
		if some.Check() != nil {
			return
		}
		_ = some.Match(&s)
		if exact := (Filter{Host: []string{s.Host}}); !strings.Contains(s.Host, "*") && s.Host != "" && !exact.Match(&s) {
			t.Errorf("%q does not match itself", s.Host)
		}
	})
}

// TestFilterInJSON checks the names in the report.
func TestFilterInJSON(t *testing.T) {
	raw, err := json.Marshal(Filter{Job: []string{"a"}, Host: []string{"a"}, Path: []string{"/"}, Status: []string{"404"}, MIME: []string{"a"}, Outcome: []string{"ok"}, Since: baseTime, Until: baseTime})
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]any
	if err := json.Unmarshal(raw, &names); err != nil {
		t.Fatal(err)
	}
	if got := slices.SortedFunc(maps.Keys(names), cmp.Compare[string]); !slices.Equal(got, []string{"host", "job", "mime", "outcome", "path", "since", "status", "until"}) {
		t.Errorf("names %v", got)
	}
	if raw, err := json.Marshal(Filter{}); err != nil || string(raw) != "{}" {
		t.Errorf("empty: %s, %v", raw, err)
	}
}
