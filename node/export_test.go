package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/storage/warc"
)

// writeArchive fills an archive with n pages; without finish its file stays open, as of a peer that runs.
func writeArchive(t *testing.T, dir string, n int, finish bool) {
	t.Helper()
	w, err := warc.Open(dir, warc.Config{Compression: warc.Gzip, Peer: "test", Software: "test"})
	if err != nil {
		t.Fatal(err)
	}
	enc := warc.NewEncoder(warc.Gzip)
	for i := range n {
		body := bytes.Repeat([]byte(fmt.Sprint(i)), 5000)
		m, err := enc.Exchange(&warc.Exchange{
			URL: fmt.Sprintf("http://a.example/%d", i), Date: time.UnixMilli(1_700_000_000_000), Protocol: "HTTP/1.1",
			Request: []byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), ResponseHead: []byte("HTTP/1.1 200 OK\r\n\r\n"),
			Body: body, PayloadDigest: sha256.Sum256(body), Outlinks: []string{fmt.Sprintf("http://b.example/%d", i)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if finish {
		err = w.Close()
	} else {
		t.Cleanup(func() { _ = w.Close() })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func filesOf(dirs map[peer.ID]string) *fakeNet {
	net := newFakeNet()
	for id, dir := range dirs {
		net.at(id, func(ctx context.Context, _ string, req []byte) ([]byte, error) {
			return archiveFiles{dir}.handle(ctx, "x", req)
		})
	}
	return net
}

func countRecords(t *testing.T, raw []byte) (n int) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(raw), true)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err == nil {
			n++
			err = rec.Skip()
		}
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
	}
}

// TestFilesService: nothing but archive files leaves the peer.
func TestFilesService(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "archive")
	writeArchive(t, dir, 2, true)
	for _, name := range []string{"secret", "archive/secret.txt", "outside.warc.gz"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := archiveFiles{dir}
	raw, err := a.handle(t.Context(), "x", []byte("{}"))
	var names []string
	if err != nil || json.Unmarshal(raw, &names) != nil || len(names) != 1 {
		t.Fatalf("names %s, %v", raw, err)
	}
	for _, row := range []struct {
		request string
		ok      bool
	}{
		{fmt.Sprintf(`{"name":%q}`, names[0]), true},
		{fmt.Sprintf(`{"name":%q,"offset":1000000000}`, names[0]), true},
		{fmt.Sprintf(`{"name":"%s.open"}`, names[0]), true}, // it was open when it was listed
		{fmt.Sprintf(`{"name":%q,"offset":-1}`, names[0]), false},
		{`{"name":"secret.txt"}`, false},
		{`{"name":"../secret"}`, false},
		{`{"name":"../outside.warc.gz"}`, false},
		{fmt.Sprintf(`{"name":%q}`, filepath.Join(root, "outside.warc.gz")), false},
		{`{"name":".."}`, false},
		{`{"name":"none.warc.gz"}`, false},
		{`{"name":"a\u0000.warc.gz"}`, false},
		{`{"name":`, false},
		{"[" + strings.Repeat(" ", 5000) + "]", false},
	} {
		if raw, err := a.handle(t.Context(), "x", []byte(row.request)); (err == nil) != row.ok || err != nil && p2p.CodeOf(err) != p2p.CodeRefused {
			t.Errorf("%.60s: %d bytes, %v", row.request, len(raw), err)
		}
	}
}

// TestExport: the records of all peers come out whole; a file that is being written is cut at its last whole record.
func TestExport(t *testing.T) {
	whole, open := t.TempDir(), t.TempDir()
	writeArchive(t, whole, 3, true)
	writeArchive(t, open, 4, false)
	paths, err := warc.Files(open, true)
	if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], ".open") {
		t.Fatalf("files %v, %v", paths, err)
	}
	cut := t.TempDir() // the open one in the middle of a record
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cut, filepath.Base(paths[0])), raw[:len(raw)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	net := filesOf(map[peer.ID]string{"whole": whole, "open": open, "cut": cut})
	for _, row := range []struct {
		peers   []peer.ID
		records int // a warcinfo a file, three for each page
		links   int
		fails   bool
	}{
		{[]peer.ID{"whole"}, 1 + 9, 3, false},
		{[]peer.ID{"open"}, 1 + 12, 4, false},
		{[]peer.ID{"cut"}, 1 + 11, 3, false},
		{[]peer.ID{"whole", "cut", "open"}, 10 + 12 + 13, 10, false},
		{[]peer.ID{"whole", "gone", "open"}, 10 + 13, 7, true},
	} {
		var records, links, index bytes.Buffer
		for i, err := range []error{
			exportWARC(t.Context(), net, row.peers, &records), exportLinks(t.Context(), net, row.peers, &links), exportCDXJ(t.Context(), net, row.peers, &index),
		} {
			if (err != nil) != row.fails {
				t.Errorf("%v, export %d: %v", row.peers, i, err)
			}
		}
		if n := countRecords(t, records.Bytes()); n != row.records {
			t.Errorf("%v: %d records, want %d", row.peers, n, row.records)
		}
		if n := strings.Count(links.String(), "\n"); n != row.links {
			t.Errorf("%v: %d links, want %d", row.peers, n, row.links)
		}
		if index.Len() == 0 {
			t.Errorf("%v: no index", row.peers)
		}
	}
}

// TestExportBrokenOff: a peer that breaks off in the middle of an open file is told of, and what came of it is whole.
func TestExportBrokenOff(t *testing.T) {
	dir := t.TempDir()
	writeArchive(t, dir, 4, false)
	net := filesOf(map[peer.ID]string{"a": dir})
	serve := net.serve["a"]
	net.at("a", func(ctx context.Context, s string, req []byte) ([]byte, error) {
		if bytes.Contains(req, []byte("offset")) {
			return nil, p2p.ErrUnreachable
		}
		raw, err := serve(ctx, s, req)
		if err == nil && bytes.Contains(req, []byte("name")) {
			raw = raw[:len(raw)/2]
		}
		return raw, err
	})
	var out bytes.Buffer
	if err := exportWARC(t.Context(), net, []peer.ID{"a"}, &out); !errors.Is(err, p2p.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	if n := countRecords(t, out.Bytes()); n < 2 || n > 12 {
		t.Errorf("%d records", n)
	}
}
