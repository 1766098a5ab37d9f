package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// testRoom grants memory up to a bound, and more after a wait.
type testRoom struct {
	memory int64

	granted, most int64 // now, and at most without a wait
	waits         []int64
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

func (r *testRoom) Wait(_ context.Context, size int64) error {
	r.waits = append(r.waits, size)
	r.granted = size
	return nil
}

// noise cannot be packed.
func noise(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

// TestRoom: a body waits for memory that is not granted at once, and arrives unchanged in every
// framing and coding. A body of known length waits once, for all of it.
func TestRoom(t *testing.T) {
	unraced(t)
	page := noise(1<<20 + 12345)
	srv := packedServer(t, page)
	for _, row := range []struct {
		name   string
		memory int64
		waits  bool
	}{
		{"memory for all", 8 << 20, false},
		{"memory for some", 600 << 10, true},
		{"none", 0, true},
	} {
		for _, path := range []string{"/identity", "/identity?chunked", "/gzip", "/gzip?chunked", "/br", "/zstd?chunked", "/zstd,gzip"} {
			t.Run(row.name+path, func(t *testing.T) {
				room := &testRoom{memory: row.memory}
				f := newFetcher(t, patient)
				resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Release()
				if row.waits != (len(room.waits) > 0) || room.most > row.memory {
					t.Errorf("waited for %v, had %d of %d granted", room.waits, room.most, row.memory)
				}
				if whole := []int64{int64(len(page)) + 1}; row.waits && path == "/identity" && !slices.Equal(room.waits, whole) {
					t.Errorf("waited for %v, want %v", room.waits, whole)
				}
				if room.granted < int64(len(page)) {
					t.Errorf("%d bytes granted for a body of %d", room.granted, len(page))
				}
				if !bytes.Contains(resp.ResponseHead, fmt.Appendf(nil, "\r\nContent-Length: %d\r\n", len(page))) {
					t.Errorf("head %q", resp.ResponseHead)
				}
				if !bytes.Equal(resp.Body, page) {
					t.Errorf("%d bytes that differ", len(resp.Body))
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
		if err != nil || len(resp.Body) != fetch.FreeBody || len(room.waits) > 0 {
			t.Fatalf("%s: %v, waits %v", path, err, room.waits)
		}
		resp.Release()
	}
}

// TestCutAfterWait checks that a body over its limit that waited for memory is truncated.
func TestCutAfterWait(t *testing.T) {
	page := noise(2 << 20)
	srv := packedServer(t, page)
	const most = 1<<20 + 77
	for _, path := range []string{"/identity", "/identity?chunked", "/gzip", "/br", "/zstd"} {
		room := &testRoom{}
		f := newFetcher(t, patient)
		resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room, MaxBytes: most, Cut: true})
		plain := path == "/identity" || path == "/identity?chunked"
		switch {
		case err != nil && plain:
			t.Fatalf("%s: %v", path, err)
		case err != nil: // noise is larger packed, so the limit of the packed body may come first
		case resp.Truncated == "" || !bytes.Equal(resp.Body, page[:min(len(resp.Body), most)]) || plain && len(resp.Body) != most:
			t.Errorf("%s: %d bytes, truncated %q", path, len(resp.Body), resp.Truncated)
		}
		if err == nil {
			resp.Release()
		}
		if _, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + path, Room: room, MaxBytes: most}); !errors.Is(err, fetch.ErrTooLarge) {
			t.Errorf("%s: %v", path, err)
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
	f := newFetcher(t, func(c *fetch.Config) { patient(c); c.Lab().InsecureTLS = true })
	ahead := 0
	resp, err := f.Get(t.Context(), &fetch.Request{URL: srv.URL + "/", Room: slowRoom{&testRoom{}, func(taken int64) {
		mu.Lock()
		defer mu.Unlock()
		ahead = max(ahead, sent-int(taken))
	}}})
	if err != nil || resp.Proto != "HTTP/2.0" || !bytes.Equal(resp.Body, page) {
		t.Fatalf("%v", err)
	}
	resp.Release()
	if ahead > 3*fetch.FreeBody {
		t.Errorf("the server was %d bytes ahead", ahead)
	}
}

// slowRoom observes a body of unknown length while it waits for memory, with the size that it has
// then.
type slowRoom struct {
	*testRoom
	look func(taken int64)
}

func (r slowRoom) Wait(ctx context.Context, size int64) error {
	time.Sleep(50 * time.Millisecond) // the server sends on meanwhile
	r.look(size * 2 / 3)
	return r.testRoom.Wait(ctx, size)
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
