package export

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/table"
	"github.com/apoidea/apoidea/storage/warc"
)

// visited returns an archive file and its index with one exchange for each change, a day apart, of
// a first fetch and visits to the same URL.
func visited(t *testing.T, changes ...string) (archive, index []byte) {
	t.Helper()
	dir := t.TempDir()
	w, err := warc.Open(dir, warc.Config{Compression: warc.Gzip})
	if err != nil {
		t.Fatal(err)
	}
	enc := warc.NewEncoder(warc.Gzip)
	const url = "http://a.example/?a&b"
	original := &warc.Original{URL: url}
	for i, change := range changes {
		body := fmt.Sprint(change, i)
		x := &warc.Exchange{
			URL: url, Date: time.Date(2026, 12, 1+i, 0, 0, 0, 0, time.UTC), ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(body),
			PayloadDigest: sha256.Sum256([]byte(body)), Fields: []warc.Field{{Name: "job", Value: strings.Repeat("0", 32)}},
		}
		if i > 0 {
			x.Fields = append(x.Fields, warc.Field{Name: "visit", Value: fmt.Sprint(i)}, warc.Field{Name: "change", Value: change}, warc.Field{Name: "before", Value: "sha256:" + change})
		}
		switch change {
		case "not-modified":
			x.ResponseHead, x.RevisitOf, x.NotModified = []byte("HTTP/1.1 304 Not Modified\r\n\r\n"), original, true
		case "same":
			x.RevisitOf = original
		}
		m, err := enc.Exchange(x)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for glob, to := range map[string]*[]byte{"*.warc.gz": &archive, "*.cdxj": &index} {
		paths, err := filepath.Glob(filepath.Join(dir, glob))
		if err != nil || len(paths) != 1 {
			t.Fatalf("%s: %v, %v", glob, paths, err)
		}
		if *to, err = os.ReadFile(paths[0]); err != nil {
			t.Fatal(err)
		}
	}
	return archive, index
}

var bytesField = regexp.MustCompile(`"bytes":[1-9][0-9]*`)

// TestChanges checks the lines of export changes: sorted by time, from an index, an archive without
// one, and the index of a file that was moved.
func TestChanges(t *testing.T) {
	archive, index := visited(t, "first", "text", "not-modified", "same", "body", "unknown")
	line := func(day int, change, by, after string) string {
		if by != "" {
			by = `"by":"` + by + `",`
		}
		return fmt.Sprintf(`{"at":"2026-12-%02dT00:00:00Z","url":"http://a.example/?a&b","change":"%s",%s"before":"sha256:%s","after":"%s","visit":%d,"bytes":N,"job":"%032d"}`+"\n", day, change, by, change, after, day-1, 0)
	}
	sum := func(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }
	text, body := line(2, "text", "text", sum("text1")), line(5, "body", "text", sum("body4"))
	all := text + line(3, "not-modified", "304", "sha256:not-modified") + line(4, "same", "digest", sum("same3")) + body + line(6, "unknown", "", sum("unknown5"))
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		o     Options
		want  string
	}{
		{"index", map[string][]byte{"1.warc.gz": archive, "1.cdxj": index}, Options{}, text + body},
		{"no index", map[string][]byte{"1.warc.gz": archive}, Options{}, text + body},
		{"moved file", map[string][]byte{"1.cdxj.moved": index}, Options{}, text + body},
		{"all", map[string][]byte{"1.warc.gz": archive, "1.cdxj": index}, Options{All: true}, all},
		{"all, no index", map[string][]byte{"1.warc.gz": archive}, Options{All: true}, all},
		{"since", map[string][]byte{"1.warc.gz": archive, "1.cdxj": index}, Options{Filter: Filter{Since: time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)}}, body},
		{"since, no change", map[string][]byte{"1.warc.gz": archive, "1.cdxj": index}, Options{Filter: Filter{Since: time.Date(2026, 12, 6, 0, 0, 0, 0, time.UTC)}}, ""},
		{"status", map[string][]byte{"1.warc.gz": archive, "1.cdxj": index}, Options{All: true, Filter: Filter{Status: []string{"304"}}}, line(3, "not-modified", "304", "sha256:not-modified")},
	} {
		var out bytes.Buffer
		src := &ring{files: map[string]map[string][]byte{"p1": tt.files}, holders: map[string]int64{"p1": 1}, urls: map[string][]string{"p1": {"http://a.example/?a&b"}}, left: -1}
		tt.o.What, tt.o.Stream = Changes, &out
		r, err := Run(t.Context(), src, tt.o)
		got := bytesField.ReplaceAllString(out.String(), `"bytes":N`)
		if err != nil || got != tt.want || r.Records != int64(strings.Count(tt.want, "\n")) || r.LostTotal != 0 {
			t.Errorf("%s: %+v, %v:\n%s\nwant\n%s", tt.name, r, err, got, tt.want)
		}
	}
	if _, err := Run(t.Context(), &ring{left: -1}, Options{What: URLs, All: true, Stream: &bytes.Buffer{}}); control.KindOf(err) != control.KindUsage {
		t.Errorf("--all of urls: %v", err)
	}
}

// TestRevisitsInExports checks what the other kinds have of visits after the first fetch.
func TestRevisitsInExports(t *testing.T) {
	archive, index := visited(t, "first", "not-modified", "text")
	src := func() *ring {
		return &ring{files: map[string]map[string][]byte{"p1": {"1.warc.gz": archive, "1.cdxj": index}}, left: -1}
	}
	dir := filepath.Join(t.TempDir(), "tables")
	if _, err := Run(t.Context(), src(), Options{What: Parquet, Output: dir}); err != nil {
		t.Fatal(err)
	}
	rows := rowsIn[table.URL](t, filepath.Join(dir, "crawl="+strings.Repeat("0", 32)))
	good, unchanged := rows["subset=warc"], rows["subset=non200responses"]
	if len(good) != 2 || good[0].Visit != 0 || good[0].Change != "" || good[1].Visit != 2 || good[1].Change != "text" {
		t.Errorf("rows with status 200: %+v", good)
	}
	if len(unchanged) != 1 || unchanged[0].Visit != 1 || unchanged[0].Change != "not-modified" || unchanged[0].SHA256 != "" || unchanged[0].MIME != warc.MIMERevisit || unchanged[0].Status != 304 {
		t.Errorf("rows with status 304: %+v", unchanged)
	}
	for what, want := range map[string]string{
		CDXJ: `"mime": "warc/revisit", "status": "304", "digest": "-"`, WARC: "", WACZ: "", Links: "from,to,kind\n", TextLines: `"text":"text2"`, WET: "",
	} {
		var out bytes.Buffer
		r, err := Run(t.Context(), src(), Options{What: what, Stream: &out})
		if err != nil || !r.Complete || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %+v, %v: %q", what, r, err, out.String())
		}
		if text := what == TextLines || what == WET; text != (r.Revisits == 1) {
			t.Errorf("%s: %d revisits left out", what, r.Revisits)
		}
	}
}
