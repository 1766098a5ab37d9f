package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// testRoom gives memory up to a bound, and a disk up to another.
type testRoom struct {
	memory, disk int64

	granted, most int64 // now, and at most without a wait
	waits         []int64
	files         []*testFile
}

func (r *testRoom) Grow(size int64) bool {
	if size > r.memory && size > r.granted {
		return false
	}
	if size > r.granted {
		r.most = max(r.most, size)
	}
	r.granted = size
	return true
}

var errDisk = errors.New("disk is full")

func (r *testRoom) Spill() (fetch.Spilled, error) {
	if r.disk == 0 {
		return nil, errDisk
	}
	f := &testFile{room: r}
	r.files = append(r.files, f)
	return f, nil
}

func (r *testRoom) Wait(_ context.Context, size int64) error {
	r.waits = append(r.waits, size)
	r.granted = size
	return nil
}

type testFile struct {
	room   *testRoom
	data   []byte
	closed bool
}

func (f *testFile) Write(p []byte) (int, error) {
	if int64(len(f.data)+len(p)) > f.room.disk {
		return 0, errDisk
	}
	f.data = append(f.data, p...)
	return len(p), nil
}
func (f *testFile) Reader() io.Reader { return bytes.NewReader(f.data) }
func (f *testFile) Size() int64       { return int64(len(f.data)) }
func (f *testFile) Close() error      { f.closed = true; return nil }

// noise cannot be packed.
func noise(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

// TestRoom: what no memory is granted for goes to disk and comes back as it was, in every framing
// and coding, and where the disk is full as well it waits for memory.
func TestRoom(t *testing.T) {
	unraced(t)
	page := noise(1<<20 + 12345)
	srv := packedServer(t, page)
	for _, row := range []struct {
		name         string
		memory, disk int64
		onDisk       bool
		waits        bool
	}{
		{"memory for all", 8 << 20, 8 << 20, false, false},
		{"memory for some", 600 << 10, 8 << 20, true, false},
		{"none", 0, 8 << 20, true, false},
		{"disk that fills up", 0, 700 << 10, false, true},
		{"no disk", 0, 0, false, true},
	} {
		for _, path := range []string{"/identity", "/identity?chunked", "/gzip", "/gzip?chunked", "/br", "/zstd?chunked", "/zstd,gzip"} {
			t.Run(row.name+path, func(t *testing.T) {
				room := &testRoom{memory: row.memory, disk: row.disk}
				f := newFetcher(t, patient)
				resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Release()
				if onDisk := resp.Spilled != nil; onDisk != row.onDisk || onDisk == (resp.Body != nil) || resp.Size() != int64(len(page)) {
					t.Errorf("on disk %v, %d bytes in memory, size %d", onDisk, len(resp.Body), resp.Size())
				}
				if row.waits != (len(room.waits) > 0) || room.most > row.memory {
					t.Errorf("waited for %v, had %d of %d granted", room.waits, room.most, row.memory)
				}
				if !bytes.Contains(resp.ResponseHead, fmt.Appendf(nil, "\r\nContent-Length: %d\r\n", len(page))) {
					t.Errorf("head %q", resp.ResponseHead)
				}
				if err := resp.Load(); err != nil || !bytes.Equal(resp.Body, page) {
					t.Errorf("%d bytes that differ, %v", len(resp.Body), err)
				}
				for _, file := range room.files {
					if !file.closed {
						t.Error("a file is left open")
					}
				}
			})
		}
	}
}

// TestRoomIsNotAsked for the first bytes of a body.
func TestRoomIsNotAsked(t *testing.T) {
	srv := packedServer(t, noise(fetch.FreeBody))
	for _, path := range []string{"/identity", "/identity?chunked", "/gzip"} {
		room := &testRoom{}
		resp, err := newFetcher(t, patient).Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room})
		if err != nil || resp.Size() != fetch.FreeBody || len(room.files) > 0 || len(room.waits) > 0 {
			t.Fatalf("%s: %v, %d files, waits %v", path, err, len(room.files), room.waits)
		}
		resp.Release()
	}
}

// TestCutOnDisk: a body over its bound is cut on disk as it is in memory, and one that fails leaves
// nothing there.
func TestCutOnDisk(t *testing.T) {
	page := noise(2 << 20)
	srv := packedServer(t, page)
	const most = 1<<20 + 77
	for _, path := range []string{"/identity", "/identity?chunked", "/gzip", "/br", "/zstd"} {
		room := &testRoom{disk: 8 << 20}
		f := newFetcher(t, patient)
		resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room, MaxBytes: most, Cut: true})
		if path == "/identity" || path == "/identity?chunked" {
			if err != nil || resp.Truncated == "" || resp.Size() != most {
				t.Fatalf("%s: %v", path, err)
			}
			if err := resp.Load(); err != nil || !bytes.Equal(resp.Body, page[:most]) {
				t.Errorf("%s: %d bytes that differ, %v", path, len(resp.Body), err)
			}
			resp.Release()
		} else if err == nil && resp.Truncated == "" { // noise is larger packed, so the bound on what is packed may come first
			t.Errorf("%s: neither cut nor refused", path)
		} else if err == nil {
			if err := resp.Load(); err != nil || !bytes.Equal(resp.Body, page[:most]) {
				t.Errorf("%s: %d bytes that differ, %v", path, len(resp.Body), err)
			}
		}
		if _, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room, MaxBytes: most}); !errors.Is(err, fetch.ErrTooLarge) {
			t.Errorf("%s: %v", path, err)
		}
		for _, file := range room.files {
			if !file.closed {
				t.Errorf("%s: a file is left open", path)
			}
		}
	}
}

// TestHTTP2BuffersLittle: a server that sends faster than the body is taken is held back at what is
// free of a body.
func TestHTTP2BuffersLittle(t *testing.T) {
	var sent int
	var mu sync.Mutex
	page := noise(4 << 20)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for at := 0; at < len(page); at += 16 << 10 {
			if _, err := w.Write(page[at:][:16<<10]); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			mu.Lock()
			sent = at + 16<<10
			mu.Unlock()
		}
	}))
	onlyHTTP2(srv)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	f := newFetcher(t, func(c *fetch.Config) { patient(c); c.InsecureTLS = true })
	ahead := 0
	room := &testRoom{disk: 8 << 20}
	resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + "/", Room: slowRoom{room, func(taken int64) {
		mu.Lock()
		defer mu.Unlock()
		ahead = max(ahead, sent-int(taken))
	}}})
	if err != nil || resp.Proto != "HTTP/2.0" || resp.Size() != int64(len(page)) {
		t.Fatalf("%v", err)
	}
	if err := resp.Load(); err != nil || !bytes.Equal(resp.Body, page) {
		t.Errorf("%d bytes that differ, %v", len(resp.Body), err)
	}
	resp.Release()
	if ahead > 3*fetch.FreeBody {
		t.Errorf("the server was %d bytes ahead", ahead)
	}
}

// slowRoom looks on while a body is written to disk.
type slowRoom struct {
	*testRoom
	look func(taken int64)
}

func (r slowRoom) Spill() (fetch.Spilled, error) {
	f, err := r.testRoom.Spill()
	return slowFile{f, r.look}, err
}

type slowFile struct {
	fetch.Spilled
	look func(taken int64)
}

func (f slowFile) Write(p []byte) (int, error) {
	f.look(f.Size())
	return f.Spilled.Write(p)
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
