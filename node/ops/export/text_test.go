package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

const sentences = "The council has decided that a new bridge will be built across the river next year, because the old one is no longer safe for heavy vehicles. "

// textWorld is a file with n pages of different sizes and, after each, a redirect, an image and a
// revisit; and one page whose main text cannot be extracted.
func textWorld(t *testing.T, n int) *ring {
	t.Helper()
	var list []*warc.Exchange
	add := func(url, head, body, job string, revisit bool) {
		x := &warc.Exchange{
			URL: url, Date: baseTime, Request: []byte("GET / HTTP/1.1\r\n\r\n"), ResponseHead: []byte("HTTP/1.1 " + head + "\r\n\r\n"), Body: []byte(body),
			PayloadDigest: sha256.Sum256([]byte(body)), Fields: []warc.Field{{Name: "job", Value: job}, {Name: "outcome", Value: "ok"}},
		}
		if revisit {
			x.RevisitOf = &warc.Original{URL: url, Date: baseTime}
		}
		list = append(list, x)
	}
	for i := range n {
		url := fmt.Sprintf("http://a.example/%d", i)
		body := fmt.Sprintf("<title>Page %d</title><body><nav><a href=/>Home</a></nav><article>%s</article>", i, strings.Repeat("<p>"+sentences+"</p>", 1+i*7%50))
		add(url, "200 OK\r\nContent-Type: text/html", body, []string{jobA, jobB, ""}[i%3], false)
		add(url+"/old", "301 Moved\r\nLocation: /\r\nContent-Type: text/html", "moved", jobA, false)
		add(url+".png", "200 OK\r\nContent-Type: image/png", "\x89PNG", jobA, false)
		add(url+"/copy", "200 OK\r\nContent-Type: text/html", body, jobA, true)
	}
	add("http://a.example/deep", "200 OK\r\nContent-Type: text/html", strings.Repeat("<div>", 1000)+"deep", jobA, false)
	add("http://a.example/robots", "206 Partial Content\r\nContent-Type: text/plain; charset=iso-8859-1", "caf\xe9", jobA, false)
	raw := archiveOf(t, warc.Gzip, list)
	return &ring{left: -1, files: map[string]map[string][]byte{"p1": {"1.warc.gz": raw, "1.cdxj": index(t, raw, "1.warc.gz")}}}
}

func textLines(t *testing.T, raw []byte) (lines []Text) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var l Text
		dec.DisallowUnknownFields()
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
}

func TestTextLines(t *testing.T) {
	const n = 60
	src := textWorld(t, n)
	var out bytes.Buffer
	r, err := Run(t.Context(), src, Options{What: TextLines, Stream: &out})
	if err != nil || !r.Complete || r.Records != n+2 || r.Revisits != n || r.Bytes != int64(out.Len()) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.SkippedTotal != 1 || len(r.Skipped) != 1 || r.Skipped[0].URL != "http://a.example/deep" || !strings.Contains(r.Skipped[0].Error, "main text") {
		t.Errorf("skipped %+v", r.Skipped)
	}
	lines := textLines(t, out.Bytes())
	records := make(map[string]*Text)
	for i := range lines[:n] {
		l := &lines[i]
		records[l.Record] = l
		if l.URL != fmt.Sprintf("http://a.example/%d", i) || l.Title != fmt.Sprintf("Page %d", i) || l.Job != []string{jobA, jobB, ""}[i%3] || !l.Time.Equal(baseTime) {
			t.Errorf("line %d: %+v", i, l)
		}
		if l.Language != "en" || l.Confidence <= 0 || len(l.SimHash) != 16 || !strings.HasPrefix(l.Digest, "sha256:") || l.Truncated != "" {
			t.Errorf("line %d: %+v", i, l)
		}
		if !strings.HasPrefix(l.Text, "Home\n") || strings.Contains(l.Main, "Home") || !strings.Contains(l.Main, strings.TrimSpace(sentences)) {
			t.Errorf("line %d: text %.40q, main text %.40q", i, l.Text, l.Main)
		}
	}
	if l := lines[n]; l.Text != "deep" || l.Main != "" {
		t.Errorf("page without a main text: %+v", l)
	}
	if l := lines[n+1]; l.Text != "café" || l.Job != jobA || l.Language != "" {
		t.Errorf("plain text: %+v", l)
	}
	if len(records) != n {
		t.Errorf("%d record IDs", len(records))
	}

	out.Reset()
	r, err = Run(t.Context(), src, Options{What: TextLines, Stream: &out, NoMainText: true, Filter: Filter{Job: []string{jobB}}})
	if err != nil || r.Records != n/3 || strings.Contains(out.String(), "main_text") {
		t.Errorf("%+v, %v", r, err)
	}
	for _, l := range textLines(t, out.Bytes()) {
		if first := records[l.Record]; first == nil || l.Text != first.Text || l.Job != jobB {
			t.Errorf("%+v", l)
		}
	}
	if _, err := Run(t.Context(), src, Options{What: WET, Stream: &out, NoMainText: true}); control.KindOf(err) != control.KindUsage {
		t.Errorf("--no-main-text of wet: %v", err)
	}
}

// TestWET reads the records back: they are packed as the name says, and each leads to its response.
func TestWET(t *testing.T) {
	src := textWorld(t, 20)
	responses := make(map[string]*warc.Record)
	for r := warc.NewReader(bytes.NewReader(src.files["p1"]["1.warc.gz"]), true); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type == warc.TypeResponse {
			responses[rec.ID] = rec
		}
	}
	for name, magic := range map[string]string{"x.warc.wet.gz": "\x1f\x8b", "x.warc.wet.zst": "\x28\xb5", "x.warc.wet": "WARC/1.1", "x.warc.gz": "\x1f\x8b", "x.warc": "WARC/1.1", "x": "\x1f\x8b"} {
		output := filepath.Join(t.TempDir(), name)
		rep, err := Run(t.Context(), src, Options{What: WET, Output: output, Software: "apoidea/1"})
		if err != nil || !rep.Complete || rep.Records != 22 || rep.Revisits != 20 || rep.SkippedTotal != 0 {
			t.Fatalf("%s: %+v, %v", name, rep, err)
		}
		raw, err := os.ReadFile(output)
		if err != nil || !strings.HasPrefix(string(raw), magic) {
			t.Fatalf("%s: %.10q, %v", name, raw, err)
		}
		n := 0
		for r := warc.NewReader(bytes.NewReader(raw), true); ; n++ {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(rec)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				if rec.Type != warc.TypeWarcinfo || rec.Get("WARC-Filename") != name || !strings.Contains(string(text), "software: apoidea/1\r\n") {
					t.Errorf("%s: first record %+v: %s", name, rec.Header, text)
				}
				continue
			}
			of := responses[strings.Trim(rec.Get("WARC-Refers-To"), "<>")]
			if of == nil || rec.Type != warc.TypeConversion || rec.TargetURI != of.TargetURI || !rec.Date.Equal(of.Date) || rec.Get("Content-Type") != "text/plain" ||
				!strings.HasPrefix(rec.Get("WARC-Block-Digest"), "sha256:") || rec.ID == of.ID {
				t.Fatalf("%s: %+v", name, rec.Header)
			}
			if isPage := n <= 20; isPage != (rec.Get("WARC-Identified-Content-Language") == "eng") || isPage != strings.HasPrefix(string(text), fmt.Sprintf("Page %d\nHome\n", n-1)) {
				t.Errorf("%s: record %d: %+v: %.60q", name, n, rec.Header, text)
			}
		}
		if n != 1+22 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

func TestWETWithoutPages(t *testing.T) {
	var out bytes.Buffer
	raw := archiveOf(t, warc.Gzip, exchanges("a.example", 4)[3:]) // an image
	src := &ring{left: -1, files: map[string]map[string][]byte{"p1": {"1.warc.gz": raw}}}
	if r, err := Run(t.Context(), src, Options{What: WET, Stream: &out}); err != nil || !r.Complete || r.Records != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if n := records(t, out.Bytes()); n != 1 {
		t.Errorf("%d records", n)
	}
	out.Reset()
	if _, err := Run(t.Context(), textWorld(t, 1), Options{What: WET, Stream: &out, Filter: Filter{MIME: []string{"image/*"}}}); !errors.Is(err, ErrEmpty) || out.Len() > 0 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

// BenchmarkText exports the texts of a file of pages of 40 kB, read and verified too.
func BenchmarkText(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(sentences + "engineers found cracks in three of its pillars and said repairs would cost more than replacing them")
	var list []*warc.Exchange
	for i := range 200 {
		var body strings.Builder
		fmt.Fprintf(&body, "<title>%d</title><script>%s</script>", i, strings.Repeat("f(a);", 1000))
		for body.Len() < 40_000 {
			body.WriteString(`<div class="section"><p class="text">`)
			for range 40 {
				body.WriteString(words[rnd.IntN(len(words))] + " ")
			}
			fmt.Fprintf(&body, `<a class="link" href="/topic/%d">topic</a></p></div>`+"\n", i)
		}
		raw := []byte(body.String())
		list = append(list, &warc.Exchange{
			URL: fmt.Sprintf("http://a.example/%d", i), Date: baseTime, ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: raw, PayloadDigest: sha256.Sum256(raw),
		})
	}
	raw := archiveOf(b, warc.Gzip, list)
	src := &ring{left: -1, files: map[string]map[string][]byte{"p1": {"1.warc.gz": raw}}}
	for _, o := range []Options{{What: TextLines}, {What: TextLines, NoMainText: true}, {What: WET}} {
		b.Run(fmt.Sprintf("%s main=%v", o.What, o.What == TextLines && !o.NoMainText), func(b *testing.B) {
			for b.Loop() {
				o.Stream = io.Discard
				if r, err := Run(b.Context(), src, o); err != nil || r.Records != 200 {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
