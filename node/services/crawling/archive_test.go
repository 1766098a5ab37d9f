package crawling

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/storage/warc"
)

// TestProvenanceInArchive checks the fields of the metadata record of a page: how it was found,
// before its outlinks, without those that are empty or have control characters.
func TestProvenanceInArchive(t *testing.T) {
	dir := t.TempDir()
	a, err := openArchive(dir, warc.Config{Compression: warc.None}, NewBodies(BodiesDeps{}))
	if err != nil {
		t.Fatal(err)
	}
	save := func(via, path, seed string) {
		t.Helper()
		if _, err := a.Save(&pages.Exchange{
			URL: "http://a.example/", Date: time.Unix(9, 0), ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"), Digest: sha256.Sum256(nil), Outlinks: []string{"http://b.example/"}, Links: pages.LinkCounts{Pages: 1},
			Depth: 2, Duration: time.Second, Via: via, HopPath: path, Seed: seed, Job: job.ID{0xab}, Outcome: "ok",
		}); err != nil {
			t.Fatal(err)
		}
	}
	save("http://c.example/", "LRL", "http://d.example/")
	save("", "", "http://a.example/")
	save("http://c.example/\r\noutlink: http://forged.example/", "L\n", "\x00")
	if err := a.writer.Close(); err != nil {
		t.Fatal(err)
	}
	const (
		job   = "job: ab000000000000000000000000000000\r\noutcome: ok\r\ndepth: 2\r\nfetchTimeMs: 1000\r\noutlinkCounts: 1 0 0 0\r\n"
		links = "outlink: http://b.example/\r\n"
	)
	want := []string{
		"via: http://c.example/\r\nhopsFromSeed: LRL\r\nseed: http://d.example/\r\n" + job + links,
		"seed: http://a.example/\r\n" + job + links,
		job + links,
	}
	for i, got := range metadata(t, dir) {
		if i >= len(want) || !strings.HasPrefix(got, want[i]) {
			t.Errorf("metadata %d is %q", i, got)
		}
	}
}

// TestRevisitInArchive checks what the archive has of visits after the first fetch.
func TestRevisitInArchive(t *testing.T) {
	dir := t.TempDir()
	a, err := openArchive(dir, warc.Config{Compression: warc.None}, NewBodies(BodiesDeps{}))
	if err != nil {
		t.Fatal(err)
	}
	body := sha256.Sum256([]byte("x"))
	of := &pages.Original{URL: "http://a.example/", RecordID: "urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f", Date: time.Unix(8, 0)}
	for _, x := range []*pages.Exchange{
		{ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte("x"), Digest: body},
		{ResponseHead: []byte("HTTP/1.1 304 Not Modified\r\n\r\n"), Digest: sha256.Sum256(nil), RevisitOf: of, Visit: 1, Change: pages.NotModified, Before: body[:]},
		{ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte("y"), Digest: sha256.Sum256([]byte("y")), Visit: 2, Change: pages.UnknownChange},
	} {
		x.URL, x.Date, x.Outcome = "http://a.example/", time.Unix(9, 0), "ok"
		if _, err := a.Save(x); err != nil {
			t.Fatal(err)
		}
	}
	if bodies := a.bodies.take(); len(bodies) != 2 {
		t.Errorf("%d bodies, want 2: a 304 has none", len(bodies))
	}
	if err := a.writer.Close(); err != nil {
		t.Fatal(err)
	}
	for i, fields := range []string{"", fmt.Sprintf("visit: 1\r\nchange: not-modified\r\nbefore: sha256:%x\r\n", body), "visit: 2\r\nchange: unknown\r\n"} {
		if got := metadata(t, dir)[i]; !strings.HasSuffix(got, "fetchTimeMs: 0\r\n"+fields) {
			t.Errorf("metadata %d is %q, want %q at its end", i, got, fields)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.warc"))
	raw, err := os.ReadFile(files[0])
	if err != nil || strings.Count(string(raw), "WARC-Profile: "+warc.ProfileNotModified) != 1 || strings.Count(string(raw), "WARC-Refers-To: <"+of.RecordID+">") != 1 {
		t.Errorf("archive %q, %v", raw, err)
	}
}

// metadata returns the blocks of the metadata records of an archive with one file.
func metadata(t *testing.T, dir string) (blocks []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.warc"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := warc.NewReader(f, true); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		block, err := io.ReadAll(rec)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type == warc.TypeMetadata {
			blocks = append(blocks, string(block))
		}
	}
	if len(blocks) != 3 {
		t.Errorf("%d metadata records, want 3", len(blocks))
	}
	return blocks
}
