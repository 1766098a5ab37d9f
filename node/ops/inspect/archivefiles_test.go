package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/storage/warc"
)

// writeArchive fills an archive with n pages; without finish its file stays open, as of a peer that
// runs.
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

// TestFilesService: nothing but archive files and their indexes leaves the peer.
func TestFilesService(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "archive")
	writeArchive(t, dir, 2, true)
	for _, name := range []string{"secret", "archive/secret.txt", "outside.warc.gz", "archive/sub.cdxj/x"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := archiveFiles{dir: dir}
	ask := func(ctx context.Context, req []byte) ([]byte, error) { return a.handle(ctx, "x", req) }
	files, err := filesOf(t.Context(), ask)
	if err != nil || len(files) != 1 || files[0].Open || files[0].Bytes == 0 {
		t.Fatalf("files %+v, %v", files, err)
	}
	name := files[0].Name
	if rest, err := a.list(name); err != nil || len(rest) != 0 {
		t.Errorf("behind the last: %v, %v", rest, err)
	}
	for _, row := range []struct {
		request string
		ok      bool
	}{
		{fmt.Sprintf(`{"name":%q}`, name), true},
		{fmt.Sprintf(`{"name":%q,"offset":1000000000}`, name), true},
		{fmt.Sprintf(`{"name":"%s.open"}`, name), true}, // it was open when it was listed
		{fmt.Sprintf(`{"name":%q}`, strings.TrimSuffix(name, ".warc.gz")+".cdxj"), true},
		{fmt.Sprintf(`{"name":%q,"offset":-1}`, name), false},
		{`{"name":"secret.txt"}`, false},
		{`{"name":"../secret"}`, false},
		{`{"name":"../outside.warc.gz"}`, false},
		{`{"name":"sub.cdxj/x"}`, false},
		{fmt.Sprintf(`{"name":%q}`, filepath.Join(root, "outside.warc.gz")), false},
		{`{"name":".."}`, false},
		{`{"name":"none.warc.gz"}`, false},
		{`{"name":"a\u0000.warc.gz"}`, false},
		{`{"name":`, false},
		{"[" + strings.Repeat(" ", 5000) + "]", false},
	} {
		if raw, err := a.handle(t.Context(), "x", []byte(row.request)); (err == nil) != row.ok || err != nil && calls.CodeOf(err) != calls.CodeRefused {
			t.Errorf("%.60s: %d bytes, %v", row.request, len(raw), err)
		}
	}
}

// TestCopyFile: a file comes whole from any offset on, also while it is being written.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	writeArchive(t, dir, 3, false)
	a := archiveFiles{dir: dir}
	ask := func(ctx context.Context, req []byte) ([]byte, error) { return a.handle(ctx, "x", req) }
	files, err := filesOf(t.Context(), ask)
	if err != nil || len(files) != 1 || !files[0].Open || strings.HasSuffix(files[0].Name, openSuffix) {
		t.Fatalf("files %+v, %v", files, err)
	}
	want, err := os.ReadFile(filepath.Join(dir, files[0].Name+openSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 10, int64(len(want)), int64(len(want)) + 5} {
		var got bytes.Buffer
		if err := copyFile(t.Context(), ask, files[0].Name, offset, &got); err != nil || !bytes.Equal(got.Bytes(), want[min(offset, int64(len(want))):]) {
			t.Errorf("from %d on: %d bytes of %d, %v", offset, got.Len(), len(want), err)
		}
	}
}

// TestStrangersLists: a list that a peer could not have is refused.
func TestStrangersLists(t *testing.T) {
	for name, answer := range map[string]string{
		"a path":     `[{"name":"../a.warc.gz"}]`,
		"no archive": `[{"name":"a.txt"}]`,
		"an index":   `[{"name":"a.cdxj"}]`,
		"open name":  `[{"name":"a.warc.gz.open"}]`,
		"backwards":  `[{"name":"b.warc.gz"},{"name":"a.warc.gz"}]`,
		"twice":      `[{"name":"b.warc.gz"},{"name":"b.warc.gz"}]`,
		"no list":    `{"name":1}`,
	} {
		if files, err := filesOf(t.Context(), func(context.Context, []byte) ([]byte, error) { return []byte(answer), nil }); err == nil {
			t.Errorf("%s: %v", name, files)
		}
	}
}

// FuzzFileRequest: whatever is asked, only archive files of the directory are told.
func FuzzFileRequest(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.warc"), []byte("archive"), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{}`, `{"name":"a.warc"}`, `{"name":"../a.warc","offset":3}`, `{"after":"a.warc"}`, `{"name":"a.warc.open","offset":-1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		answer, err := archiveFiles{dir: dir}.handle(t.Context(), "x", raw)
		var files []struct{ Name string }
		if err == nil && !bytes.HasSuffix([]byte("archive"), answer) && (json.Unmarshal(answer, &files) != nil || len(files) > 1) {
			t.Errorf("%q answered with %q", raw, answer)
		}
	})
}
