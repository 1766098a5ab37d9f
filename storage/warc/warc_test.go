package warc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 3, 1, 12, 30, 45, 678_000_000, time.UTC)

func testConfig(c Compression) Config {
	return Config{Compression: c, Peer: "peer1", Software: "apoidea/test", Operator: "nobody", Hostname: "crawler.example", UserAgent: "apoidea/test (+nobody)", Now: func() time.Time { return testTime }}
}

// page returns an exchange whose body is of that many bytes.
func page(n, size int) *Exchange {
	body := bytes.Repeat(fmt.Appendf(nil, "<p>page %d of the <a href=%q>test</a>\n", n, "/next"), size/40+1)[:size]
	return &Exchange{
		URL: fmt.Sprintf("http://www.example.com:8080/dir/page%d.html?b=2&a=1", n), Date: testTime.Add(time.Duration(n) * time.Second),
		IP: "192.0.2.7", Protocol: "http/1.1",
		Request:       []byte("GET /dir/page HTTP/1.1\r\nHost: www.example.com\r\n\r\n"),
		ResponseHead:  fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", size),
		Body:          body,
		PayloadDigest: sha256.Sum256(body),
		Outlinks:      []string{"http://www.example.com:8080/next", "https://other.example/"},
		Fields:        []Field{{"via", "http://www.example.com:8080/"}, {"hopsFromSeed", "1"}},
	}
}

func revisit(n int, of *Exchange, id ID) *Exchange {
	x := page(n, len(of.Body))
	x.PayloadDigest = of.PayloadDigest
	x.RevisitOf = &Original{URL: of.URL, Date: of.Date, RecordID: id}
	return x
}

// appendAll writes exchanges and returns where they lie.
func appendAll(t testing.TB, w *Writer, c Compression, xs ...*Exchange) []Ref {
	t.Helper()
	e := NewEncoder(c)
	var refs []Ref
	for _, x := range xs {
		m, err := e.Exchange(x)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := w.Append(m)
		if err != nil {
			t.Fatal(err)
		}
		e.Recycle(m)
		refs = append(refs, ref)
	}
	return refs
}

func mustOpen(t testing.TB, dir string, c Config) *Writer {
	t.Helper()
	w, err := Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type readRecord struct {
	Record
	block []byte
}

// readAll reads a file to its end with all digests checked.
func readAll(t testing.TB, path string) []readRecord {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []readRecord
	for r := NewReader(f, true); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		block, err := io.ReadAll(rec)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, readRecord{*rec, block})
	}
}

func TestWrittenIsRead(t *testing.T) {
	for _, c := range []Compression{Gzip, None} {
		t.Run(string(c), func(t *testing.T) {
			dir := t.TempDir()
			w := mustOpen(t, dir, testConfig(c))
			first := page(1, 38_000)
			refs := appendAll(t, w, c, first, page(2, 0))
			refs = append(refs, appendAll(t, w, c, revisit(3, first, refs[0].RecordID), page(4, 3_000_000))...)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			recs := readAll(t, filepath.Join(dir, refs[0].File))
			var types []Type
			for _, rec := range recs {
				types = append(types, rec.Type)
			}
			one := []Type{TypeResponse, TypeRequest, TypeMetadata}
			want := slices.Concat([]Type{TypeWarcinfo}, one, one, []Type{TypeRevisit, TypeRequest, TypeMetadata}, one)
			if !slices.Equal(types, want) {
				t.Fatalf("records %v, want %v", types, want)
			}
			checkResponse(t, recs[1], first, refs[0])
			checkRevisit(t, recs[7], first, refs[0], refs[2])
			if got := string(recs[3].block); !strings.Contains(got, "via: http://www.example.com:8080/\r\n") ||
				!strings.Contains(got, "outlink: https://other.example/\r\n") {
				t.Errorf("metadata %q", got)
			}
			if got := recs[2].Get("warc-concurrent-to"); got != "<"+refs[0].RecordID.String()+">" {
				t.Errorf("the request is concurrent to %q", got)
			}
			for _, field := range []string{
				"software: apoidea/test", "operator: nobody", "hostname: crawler.example", "http-header-user-agent: apoidea/test (+nobody)", "robots: classic", "format: WARC File Format 1.1",
			} {
				if info := string(recs[0].block); !strings.Contains(info, field+"\r\n") {
					t.Errorf("warcinfo %q, without %q", info, field)
				}
			}
		})
	}
}

func checkResponse(t *testing.T, rec readRecord, x *Exchange, ref Ref) {
	t.Helper()
	if rec.ID != ref.RecordID.String() || rec.Offset != ref.Offset || rec.TargetURI != x.URL || !rec.Date.Equal(x.Date) {
		t.Errorf("response %+v is not at %+v", rec.Record, ref)
	}
	if want := append(slices.Clone(x.ResponseHead), x.Body...); !bytes.Equal(rec.block, want) {
		t.Errorf("block of %d bytes, want %d", len(rec.block), len(want))
	}
	if rec.Get("WARC-IP-Address") != x.IP || rec.Get("WARC-Protocol") != x.Protocol {
		t.Errorf("fields %v", rec.Header)
	}
}

func checkRevisit(t *testing.T, rec readRecord, of *Exchange, first, ref Ref) {
	t.Helper()
	for name, want := range map[string]string{
		"WARC-Profile": ProfileIdenticalDigest, "WARC-Truncated": TruncatedLength, "WARC-Refers-To": "<" + first.RecordID.String() + ">",
		"WARC-Refers-To-Target-URI": of.URL, "WARC-Refers-To-Date": "2026-03-01T12:30:46.678Z",
		"WARC-Payload-Digest": fmt.Sprintf("sha256:%x", of.PayloadDigest),
	} {
		if got := rec.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if rec.ID != ref.RecordID.String() || !bytes.HasSuffix(rec.block, []byte("\r\n\r\n")) {
		t.Errorf("revisit block %q", rec.block)
	}
}

// TestNotModified checks the record and the index line of an answer with status 304.
func TestNotModified(t *testing.T) {
	first := page(1, 100)
	x := page(2, 0)
	x.URL, x.ResponseHead, x.Body, x.NotModified = first.URL, []byte("HTTP/1.1 304 Not Modified\r\nContent-Type: text/html\r\nEtag: a\r\n\r\n"), nil, true
	x.RevisitOf = &Original{URL: first.URL, Date: first.Date, RecordID: newID()}
	x.Fields = []Field{{"visit", "3"}, {"change", "not-modified"}, {"before", "sha256:00ff"}}
	m, err := NewEncoder(None).Exchange(x)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := NewReader(bytes.NewReader(m.data), true).Next()
	if err != nil || rec.Type != TypeRevisit {
		t.Fatalf("%+v, %v", rec, err)
	}
	block, err := io.ReadAll(rec)
	if err != nil || !bytes.Equal(block, x.ResponseHead) {
		t.Errorf("block %q, %v", block, err)
	}
	for name, want := range map[string]string{
		"WARC-Profile": "http://netpreserve.org/warc/1.1/revisit/server-not-modified", "WARC-Refers-To": "<" + x.RevisitOf.RecordID.String() + ">",
		"WARC-Refers-To-Target-URI": first.URL, "WARC-Refers-To-Date": "2026-03-01T12:30:46.678Z", "WARC-Payload-Digest": "", "WARC-Truncated": "",
	} {
		if got := rec.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	written := append(appendPlace(slices.Clone(m.index), 0, "a.warc"), m.tail...)
	index, err := Index(bytes.NewReader(m.data), "a.warc", func(Entry, Ref) { t.Error("a revisit is a body") })
	if err != nil || !bytes.Equal(index, written) {
		t.Errorf("index %q, written %q, %v", index, written, err)
	}
	lines, err := ParseIndex(bytes.NewReader(index))
	if err != nil || len(lines) != 1 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if l := lines[0]; l.Digest != NoDigest || l.MIME != MIMERevisit || l.Status != "304" || l.Visit != "3" || l.Change != "not-modified" || l.Before != "sha256:00ff" {
		t.Errorf("%+v", l)
	}
}

func TestRefuses(t *testing.T) {
	e := NewEncoder(Gzip)
	for name, spoil := range map[string]func(*Exchange){
		"no URL":                 func(x *Exchange) { x.URL = "" },
		"line break in URL":      func(x *Exchange) { x.URL += "\r\nWARC-Type: warcinfo" },
		"line break in protocol": func(x *Exchange) { x.Protocol = "h2\n" },
		"no response head":       func(x *Exchange) { x.ResponseHead = nil },
		"endless response head":  func(x *Exchange) { x.ResponseHead = []byte("HTTP/1.1 200 OK\r\n") },
		"304 of no record":       func(x *Exchange) { x.NotModified = true },
		"line break in original": func(x *Exchange) { x.RevisitOf = &Original{URL: "a\r\nb"} },
	} {
		x := page(1, 10)
		spoil(x)
		if _, err := e.Exchange(x); !errors.Is(err, ErrExchange) {
			t.Errorf("%s: got %v, want ErrExchange", name, err)
		}
	}
	x := page(1, 10)
	x.Outlinks = []string{"http://a/\r\nvia: b"}
	m, err := e.Exchange(x)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(bytes.NewReader(m.data), true)
	var last []byte
	for {
		rec, err := r.Next()
		if err != nil {
			break
		}
		last, _ = io.ReadAll(rec)
	}
	if !bytes.HasSuffix(last, []byte("outlink: http://a/via: b\r\n")) {
		t.Errorf("a line break in an outlink came through: %q", last)
	}
}

func TestIDs(t *testing.T) {
	seen := map[ID]bool{}
	for range 1000 {
		id := newID()
		again, err := ParseID("<" + id.String() + ">")
		if err != nil || again != id || seen[id] {
			t.Fatalf("%v became %v, %v, or came twice", id, again, err)
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "urn:uuid:", "urn:uuid:zz345678-1234-4123-8123-123456789012", "http://x/", "urn:uuid:1234"} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) has no error", bad)
		}
	}
}

func TestReaderFindsDamage(t *testing.T) {
	m, err := NewEncoder(None).Exchange(page(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	good := string(m.data)
	for _, row := range []struct {
		name string
		data string
		want error
	}{
		{"block changed", strings.Replace(good, "page 1 of", "page 7 of", 1), ErrDigest},
		{"head cut", good[:40], ErrTruncated},
		{"block cut", good[:900], ErrTruncated},
		{"end cut", good[:len(good)-1], ErrTruncated},
		{"not WARC", "HTTP/1.1 200 OK\r\n\r\n", ErrFormat},
		{"no length", "WARC/1.1\r\nWARC-Type: response\r\n\r\n", ErrFormat},
		{"negative length", strings.Replace(good, "Content-Length: ", "Content-Length: -", 1), ErrFormat},
		{"too short a length", strings.Replace(good, "Content-Length: 1", "Content-Length: ", 1), ErrFormat},
		{"endless line", "WARC/1.1\r\nX: " + strings.Repeat("x", maxHeaderLine+1) + "\r\n", ErrFormat},
		{"endless head", "WARC/1.1\r\n" + strings.Repeat("X: y\r\n", maxHeaderLines+1), ErrFormat},
	} {
		r := NewReader(strings.NewReader(row.data), true)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", row.name, err, row.want)
		}
	}
}

// FuzzReader feeds the reader anything: it must end, and hold to its bounds.
func FuzzReader(f *testing.F) {
	for _, c := range []Compression{Gzip, None} {
		m, err := NewEncoder(c).Exchange(page(1, 500))
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(m.data))
	}
	packed, _ := zstdPage(f, 500)
	for _, seed := range []string{extension, wide, wideOne} {
		f.Add([]byte(seed))
		f.Add(slices.Concat(packed, []byte(seed)))
	}
	f.Add([]byte("WARC/1.0\r\nContent-Length: 9223372036854775807\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n\r\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data), true)
		for range len(data) + 1 {
			rec, err := r.Next()
			if errors.Is(err, ErrDigest) {
				continue
			}
			if err != nil {
				return
			}
			if rec.Offset < 0 || rec.Offset > int64(len(data)) {
				t.Fatalf("record at %d of %d", rec.Offset, len(data))
			}
			if _, err := rec.HTTPHead(); err != nil {
				continue
			}
		}
		t.Fatal("more records than bytes")
	})
}
