package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/table"
	"github.com/apoidea/apoidea/storage/warc"
)

// rowsIn returns the rows of all files in a directory, by partition.
func rowsIn[T any](t *testing.T, dir string) map[string][]T {
	t.Helper()
	rows := make(map[string][]T)
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		part, err := parquet.ReadFile[T](path)
		below, _ := filepath.Rel(dir, filepath.Dir(path))
		rows[filepath.ToSlash(below)] = append(rows[filepath.ToSlash(below)], part...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestParquet: each record of the archives and each URL without one is a row, sorted by key, also
// if an index is missing; links and hosts agree with it.
func TestParquet(t *testing.T) {
	for _, index := range []bool{true, false} {
		src := world(t)
		src.urls = map[string][]string{"p1": {"http://b.example/2", "http://b.example/1"}}
		if !index {
			delete(src.files["p1"], "1.cdxj")
		}
		dir := filepath.Join(t.TempDir(), "out")
		o := Options{What: Parquet, Output: dir, Tables: Tables()}
		r, err := Run(t.Context(), src, o)
		if err != nil || !r.Complete || r.Bytes == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		urls := rowsIn[table.URL](t, filepath.Join(dir, "crawl=none"))
		archived, pending := urls["subset=warc"], urls["subset=unarchived"]
		var warcs strings.Builder
		if _, err := Run(t.Context(), world(t), Options{What: CDXJ, Stream: &warcs}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(warcs.String(), "\n"); len(archived) != n || len(pending) != 2 || r.Records != int64(n+2) || r.Tables[TableURLs] != r.Records {
			t.Fatalf("%d rows of %d records, %d without, told %d", len(archived), n, len(pending), r.Records)
		}
		if !slices.IsSortedFunc(archived, func(a, b table.URL) int { return strings.Compare(a.SURT, b.SURT) }) || pending[0].Path != "/1" {
			t.Error("not in order")
		}
		u := archived[0]
		rec, err := warc.NewReader(strings.NewReader(string(src.files[u.Segment][u.File][u.Offset:])), true).Next()
		if err == nil {
			err = rec.Skip()
		}
		if err != nil || rec.TargetURI != u.URL || rec.Length != int64(u.Length) || u.Status != 200 || u.Fetched != 1_700_000_000_000 || u.SURT != warc.SURT(u.URL) {
			t.Errorf("%+v leads to %+v, %v", u, rec, err)
		}
		if p := pending[0]; p.File != "" || p.Status != 0 || p.Offset != 0 || p.Outcome != "ok" {
			t.Errorf("%+v", p)
		}
		var sum int64
		for _, h := range rowsIn[table.Host](t, filepath.Join(dir, TableHosts))["."] {
			sum += h.URLs
		}
		var csv strings.Builder
		if _, err := Run(t.Context(), world(t), Options{What: Links, Stream: &csv}); err != nil {
			t.Fatal(err)
		}
		links := rowsIn[table.Link](t, filepath.Join(dir, TableLinks))["."]
		if sum != r.Records || len(links) != strings.Count(csv.String(), "\n")-1 || r.Tables[TableLinks] != int64(len(links)) {
			t.Errorf("hosts have %d rows, %d links of %s", sum, len(links), csv.String())
		}
		if _, err := Run(t.Context(), world(t), o); control.KindOf(err) != control.KindUsage {
			t.Errorf("replaced what was there: %v", err)
		}
		o.Force, o.Tables = true, nil
		if r, err = Run(t.Context(), world(t), o); err != nil || len(r.Tables) == 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := slices.Sorted(maps.Keys(rowsIn[table.URL](t, dir))); !slices.Equal(got, []string{"crawl=none/subset=unarchived", "crawl=none/subset=warc"}) {
			t.Errorf("after --force: %v", got)
		}
	}
}

// TestParquetRefuses: a stream, an unknown table, and tables of another kind are usage errors, and
// a filter without a match leaves nothing.
func TestParquetRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []Options{
		{What: Parquet, Stream: io.Discard},
		{What: Parquet, Output: filepath.Join(dir, "a"), Tables: []string{"pages"}},
		{What: URLs, Stream: io.Discard, Tables: Tables()},
	} {
		if _, err := Run(t.Context(), world(t), o); control.KindOf(err) != control.KindUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := Options{What: Parquet, Output: filepath.Join(dir, "b"), Filter: Filter{Host: []string{"nowhere.example"}}}
	if _, err := Run(t.Context(), world(t), o); !errors.Is(err, ErrEmpty) {
		t.Errorf("no match: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestForceKeepsOthers: --force replaces an output of the same kind, and nothing else.
func TestForceKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	thesis := filepath.Join(dir, "home", "thesis")
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "home", "links"), 0o755), os.WriteFile(thesis, nil, 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{What: Parquet, Output: filepath.Join(dir, "home")}, {What: Parquet, Output: file}, {What: URLs, Output: filepath.Join(dir, "home")},
	} {
		o.Force = true
		if r, err := Run(t.Context(), world(t), o); control.KindOf(err) != control.KindUsage {
			t.Errorf("%s to %s: %+v, %v", o.What, o.Output, r, err)
		}
	}
	if _, err := os.Stat(thesis); err != nil {
		t.Error(err)
	}
	if err := os.Remove(thesis); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), world(t), Options{What: Parquet, Output: filepath.Join(dir, "home"), Force: true}); err != nil {
		t.Errorf("a directory of tables: %v", err)
	}
}

// hostileLines is a peer whose index and outcomes are made to break out of the output, or out of
// the lines of a sorter.
type hostileLines struct{ index string }

func (hostileLines) Archives(context.Context, bool) (*control.Archives, error) {
	return &control.Archives{Peers: []control.ArchivePeer{{Peer: "p", Role: "ring", Files: []control.ArchiveFile{{Name: "x.warc.gz"}}}}}, nil
}

func (hostileLines) URLs(context.Context, string, string) (*control.URLPage, error) {
	return &control.URLPage{URLs: []control.URLLine{{URL: "http://a.example/\x00\x00\x01", Job: "../../up", Outcome: "dns", Depth: 1 << 31}}}, nil
}

func (h hostileLines) ReadArchive(_ context.Context, _, name string, _ int64, w io.Writer) error {
	if name != "x.cdxj" {
		return &control.Error{Kind: control.KindFailed, Text: "no such file"}
	}
	_, err := io.WriteString(w, h.index)
	return err
}

func TestParquetOfHostilePeer(t *testing.T) {
	dir := t.TempDir()
	index := `x 20260101120000 {"url": "http://a.example/\u0000x", "mime": "text/html", "status": "404", "digest": "", "length": "9000000000", "offset": "7", "filename": "x", "job": "../../../up", "via": "\u0000"}
y 20260101120000 {"url": "no url", "mime": "", "status": "-", "digest": "", "length": "7", "offset": "7", "filename": "x", "job": "a\u0000b", "depth": "-5", "ms": "x"}
`
	r, err := Run(t.Context(), hostileLines{index}, Options{What: Parquet, Output: filepath.Join(dir, "a", "out"), Tables: Tables()})
	if control.KindOf(err) != control.KindUsage {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = Run(t.Context(), hostileLines{index}, Options{What: Parquet, Output: filepath.Join(dir, "out"), Tables: []string{TableURLs, TableHosts}}); err != nil || r.Records != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	rows := rowsIn[table.URL](t, filepath.Join(dir, "out", "crawl=none"))
	if len(rows["subset=non200responses"]) != 2 || len(rows["subset=unarchived"]) != 1 || rows["subset=unarchived"][0].Outcome != "dns" {
		t.Errorf("%+v", rows)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestArchivedAnswersOnce: an outcome without the ID of its record is a row of its own only if no
// archive has an answer of the URL in the job.
func TestArchivedAnswersOnce(t *testing.T) {
	const job = "0123456789abcdef0123456789abcdef"
	src := hostileLines{`x 20260101120000 {"url": "http://a.example/\u0000\u0000\u0001", "mime": "-", "status": "404", "digest": "", "length": "7", "offset": "7", "filename": "x", "job": ""}` + "\n"}
	for _, same := range []bool{true, false} {
		if !same {
			src.index = strings.Replace(src.index, `"job": ""`, `"job": "`+job+`"`, 1)
		}
		dir := filepath.Join(t.TempDir(), "out")
		r, err := Run(t.Context(), src, Options{What: Parquet, Output: dir})
		if err != nil || same != (r.Records == 1) || same == (r.Records == 2) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// large is a peer with indexes of many records and no archive behind them.
type large struct {
	files, lines int
}

func (l large) Archives(context.Context, bool) (*control.Archives, error) {
	p := control.ArchivePeer{Peer: "12D3KooWpeer", Role: "worker"}
	for i := range l.files {
		p.Files = append(p.Files, control.ArchiveFile{Name: fmt.Sprintf("apoidea-20260101000000-%05d.warc.gz", i)})
	}
	return &control.Archives{Peers: []control.ArchivePeer{p}}, nil
}

func (l large) URLs(context.Context, string, string) (*control.URLPage, error) {
	return &control.URLPage{}, nil
}

func (l large) ReadArchive(ctx context.Context, _, name string, _ int64, w io.Writer) error {
	var number int
	if _, err := fmt.Sscanf(name, "apoidea-20260101000000-%05d.cdxj", &number); err != nil {
		return err
	}
	var line []byte
	for i := range l.lines {
		host, n := i/100, i%100
		line = fmt.Appendf(line[:0], `com,example%06d)/articles/%d/a-longer-name-of-a-page-%d.html 20260101%06d {"url": "https://www.example%06d.com/articles/%d/a-longer-name-of-a-page-%d.html", `,
			host, number, n, 120000+i%60, host, number, n)
		line = fmt.Appendf(line, `"mime": "text/html", "status": "200", "digest": "sha256:%064x", "length": "%d", "offset": "%d", "filename": "%s", "charset": "utf-8", `,
			uint64(i)*0x9e3779b97f4a7c15, 900+n, i*1000, name)
		line = fmt.Appendf(line, `"job": "0123456789abcdef0123456789abcdef", "outcome": "ok", "via": "https://www.example%06d.com/articles/%d", "hops": "LLL", "seed": "https://www.example.com/", "ms": "%d"}`+"\n",
			host, n%7, 20+n)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// BenchmarkParquet reports the rows a second of the table of URLs, and the largest heap. Set
// APOIDEA_ROWS for the number of rows.
func BenchmarkParquet(b *testing.B) {
	rows := 1_000_000
	if text := os.Getenv("APOIDEA_ROWS"); text != "" {
		if _, err := fmt.Sscan(text, &rows); err != nil {
			b.Fatal(err)
		}
	}
	const perFile = 100_000
	for range b.N {
		var most uint64
		began := time.Now()
		r, err := Run(b.Context(), large{rows / perFile, perFile}, Options{What: Parquet, Output: filepath.Join(b.TempDir(), "out"), Progress: func(Progress) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse+m.StackInuse)
		}})
		if err != nil || r.Records != int64(rows) {
			b.Fatalf("%+v, %v", r, err)
		}
		b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
		b.ReportMetric(float64(most)/1e6, "MB-heap")
		b.ReportMetric(float64(r.Bytes)/float64(rows), "B/row")
	}
}

// TestParquetOfMovedFile: the index that stays behind gives the rows, with the name of the file.
func TestParquetOfMovedFile(t *testing.T) {
	src := world(t)
	names := make(map[string]int)
	for _, moved := range []bool{false, true} {
		if moved {
			src.files["p1"]["1.cdxj.moved"] = src.files["p1"]["1.cdxj"]
			delete(src.files["p1"], "1.cdxj")
			delete(src.files["p1"], "1.warc.gz")
		}
		dir := filepath.Join(t.TempDir(), "out")
		if r, err := Run(t.Context(), src, Options{What: Parquet, Output: dir, Tables: []string{TableURLs, TableLinks}}); err != nil || !r.Complete {
			t.Fatalf("moved %v: %+v, %v", moved, r, err)
		}
		for _, u := range rowsIn[table.URL](t, filepath.Join(dir, "crawl=none"))["subset=warc"] {
			names[u.File+" "+u.Segment]++
		}
	}
	for name, n := range names {
		if n%2 != 0 {
			t.Errorf("%d rows of %s", n, name)
		}
	}
	if names["1.warc.gz p1"] == 0 {
		t.Errorf("%v", names)
	}
}
