package warc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// provenPage is a page with the fields of a crawl worker, some of which need care.
func provenPage(n int) *Exchange {
	x := page(n, 100)
	x.Fields = [][]Field{
		{{"job", strings.Repeat("0a", 16)}, {"outcome", "ok"}, {"via", "http://www.example.com/\"\u00fc\\"}, {"hopsFromSeed", "LLR"}, {"seed", "http://seed.example/ "}},
		{{"fetchTimeMs", "5"}, {"outcome", "dup\r\nlicate"}, {"outcome", "ok"}, {"hopsFromSeed", "3"}, {"note", "a: b"}},
		nil,
	}[n%3]
	return x
}

// TestRebuiltIndexHasProvenance checks that the index of the writer and one that is rebuilt from
// the WARC file agree, for files that were closed, left open by a crash, and repaired.
func TestRebuiltIndexHasProvenance(t *testing.T) {
	for _, c := range []Compression{Gzip, Zstd, None} {
		dir := t.TempDir()
		w, err := Open(dir, testConfig(c))
		if err != nil {
			t.Fatal(err)
		}
		var xs []*Exchange
		for n := range 7 {
			xs = append(xs, provenPage(n))
		}
		xs = append(xs, revisit(9, xs[0], ID{}))
		xs[7].Fields = xs[0].Fields
		appendAll(t, w, c, xs...)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		paths, err := Files(dir, false)
		if err != nil || len(paths) != 1 {
			t.Fatal(paths, err)
		}
		index := filepath.Join(dir, IndexName(filepath.Base(paths[0])))
		want, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		same := func(how string) {
			t.Helper()
			if got, err := os.ReadFile(index); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %v\n%swant\n%s", c, how, err, got, want)
			}
		}
		lines, err := ParseIndex(bytes.NewReader(want))
		if err != nil || len(lines) != 8 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		slices.SortFunc(lines, func(a, b IndexLine) int { return int(a.Offset - b.Offset) })
		full := Provenance{Job: strings.Repeat("0a", 16), Outcome: "ok", Via: "http://www.example.com/\"\u00fc\\", HopPath: "LLR", Seed: "http://seed.example/"}
		for n, p := range []Provenance{full, {Outcome: "duplicate", FetchMs: "5"}, {}, full, {Outcome: "duplicate", FetchMs: "5"}, {}, full, full} {
			if lines[n].Provenance != p {
				t.Errorf("%s: line %d has %+v, want %+v", c, n, lines[n].Provenance, p)
			}
		}
		for line := range bytes.Lines(want) { // extra keys follow the usual ones
			if usual, _, _ := bytes.Cut(line, []byte(`"filename"`)); bytes.Contains(usual, []byte(`"outcome"`)) {
				t.Errorf("%s", line)
			}
		}
		if changed, err := Repair(dir, filepath.Base(paths[0]), t.TempDir()); changed || err != nil {
			t.Errorf("%s: repair of a sound file: %v, %v", c, changed, err)
		}
		if err := os.Remove(index); err != nil {
			t.Fatal(err)
		}
		if changed, err := Repair(dir, filepath.Base(paths[0]), t.TempDir()); !changed || err != nil {
			t.Errorf("%s: repair: %v, %v", c, changed, err)
		}
		same("repaired")
		if err := os.Rename(paths[0], paths[0]+openSuffix); err != nil {
			t.Fatal(err)
		}
		if w, err = Open(dir, testConfig(c)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		same("recovered")
	}
}

// TestParseIndexOfOthers reads lines of earlier versions and of other programs.
func TestParseIndexOfOthers(t *testing.T) {
	const object = `{"url": "http://www.a.example/b/", "mime": "text/html", "status": "200", "digest": "sha256:00", "length": "7", "offset": "3", "filename": "x.warc.gz"}`
	want := IndexLine{URL: "http://www.a.example/b/", Digest: "sha256:00", MIME: "text/html", Status: "200", Length: 7, Offset: 3, File: "x.warc.gz"}
	for name, c := range map[string]struct {
		line string
		ok   bool
	}{
		"current key":    {"example,a)/b 20260301123045 " + object, true},
		"earlier key":    {"example,a)/b/ 20260301123045 " + object, true},
		"compact":        {"example,a)/b 20260301123045 " + strings.ReplaceAll(object, `": "`, `":"`), true},
		"escaped":        {"example,a)/b 20260301123045 " + strings.Replace(object, "text/html", `te\u0078t/html`, 1), true},
		"unknown keys":   {"example,a)/b 20260301123045 " + strings.Replace(object, `"mime"`, `"x": 1, "mime"`, 1), true},
		"bad date":       {"example,a)/b 20261301123045 " + object, false},
		"no key":         {" 20260301123045 " + object, false},
		"no URL":         {"example,a)/b 20260301123045 " + strings.Replace(object, "url", "uri", 1), false},
		"trailing bytes": {"example,a)/b 20260301123045 " + object + "x", false},
		"cut":            {"example,a)/b 20260301123045 " + object[:50], false},
		"no length":      {"example,a)/b 20260301123045 " + strings.Replace(object, `"7"`, `"0"`, 1), false},
	} {
		l, ok := parseLine(c.line)
		l.Date, l.Key = want.Date, want.Key
		if ok != c.ok || ok && l != want {
			t.Errorf("%s: %+v, %v", name, l, ok)
		}
	}
}

// indexOf returns the index of n pages.
func indexOf(tb testing.TB, n int) []byte {
	tb.Helper()
	var index Indexer
	for i := range n {
		x := provenPage(i)
		x.URL = fmt.Sprintf("https://www.h%d.example/articles/%d/honey-bees.html?page=%d", i%97, i, i)
		if i%3 == 0 {
			x.Fields[2].Value = "https://www.h1.example/articles/"
		}
		e := entryOf(x, x.Date)
		index.Add(&e, "apoidea-20260301123045-00001-peer1.warc.gz", int64(i)*9000, 9000)
	}
	return index.Lines()
}

func BenchmarkParseIndex(b *testing.B) {
	const n = 20_000
	lines := indexOf(b, n)
	b.ResetTimer()
	for b.Loop() {
		if err := ScanIndex(bytes.NewReader(lines), func(*IndexLine) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkParseIndexJSON(b *testing.B) {
	const n = 20_000
	lines := slices.Collect(strings.Lines(string(indexOf(b, n))))
	b.ResetTimer()
	for b.Loop() {
		for _, line := range lines {
			var o lineObject
			if err := o.unmarshal(line[strings.IndexByte(line, '{'):]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
