package fetch_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

func itoa(n int) string { return strconv.Itoa(n) }

// pack applies one coding.
func pack(coding string, body []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriterLevel(&b, 1)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, 6)
	default:
		return body
	}
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// packedServer serves body at /CODING[,CODING], packed in that order; a query ?chunked does so
// without a length.
func packedServer(t *testing.T, body []byte) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codings := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), ",")
		out := body
		var names []string
		for _, c := range codings {
			out = pack(c, out)
			names = append(names, strings.TrimPrefix(c, "raw "))
		}
		w.Header().Set("Content-Encoding", strings.Join(names, ", "))
		if r.URL.RawQuery == "" {
			w.Header().Set("Content-Length", itoa(len(out)))
		}
		_, _ = w.Write(out)
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestCodings(t *testing.T) {
	page := markup(100_000)
	srv := packedServer(t, page)
	f := newFetcher(t, nil)
	for _, path := range []string{"gzip", "x-gzip", "br", "zstd", "deflate", "raw%20deflate", "identity", "gzip,br", "gzip,gzip", "zstd,br,gzip"} {
		for _, query := range []string{"", "?chunked"} {
			t.Run(path+query, func(t *testing.T) {
				resp := get(t, f, srv.URL+"/"+path+query)
				defer resp.Release()
				if !bytes.Equal(resp.Body, page) {
					t.Fatalf("%d bytes that differ from the page's %d", len(resp.Body), len(page))
				}
				if path == "identity" {
					return
				}
				if resp.ContentEncoding == "" || resp.WireBytes >= int64(len(page)) {
					t.Errorf("coding %q, %d bytes on the wire", resp.ContentEncoding, resp.WireBytes)
				}
				head := string(resp.ResponseHead)
				if !strings.Contains(head, "\r\nX-Crawler-Content-Encoding: ") || strings.Contains(head, "\r\nContent-Encoding: ") ||
					!strings.Contains(head, "\r\nContent-Length: 100000\r\n") {
					t.Errorf("head does not fit the body: %q", head)
				}
			})
		}
	}
}

func TestBombs(t *testing.T) {
	zeros := make([]byte, 2<<20)
	small := newFetcher(t, func(c *fetch.Config) { c.MaxBody = 1 << 20 })
	large := newFetcher(t, nil)
	srv := packedServer(t, zeros)
	for _, coding := range []string{"gzip", "br", "zstd", "deflate", "gzip,gzip"} {
		t.Run(coding, func(t *testing.T) {
			_, err := small.Get(t.Context(), &fetch.Request{URL: srv.URL + "/" + coding})
			wantOutcome(t, err, link.OutcomeTooLarge)
		})
	}
	t.Run("ratio below the size bound", func(t *testing.T) {
		_, err := large.Get(t.Context(), &fetch.Request{URL: srv.URL + "/gzip"})
		wantOutcome(t, err, link.OutcomeTooLarge)
	})
	t.Run("zeros below the free size", func(t *testing.T) {
		srv := packedServer(t, zeros[:1<<20])
		get(t, small, srv.URL+"/gzip").Release()
	})
	t.Run("packed body over the bound", func(t *testing.T) {
		srv := packedServer(t, markup(500_000))
		_, err := small.Get(t.Context(), &fetch.Request{URL: srv.URL + "/gzip", MaxBytes: 10_000})
		wantOutcome(t, err, link.OutcomeTooLarge)
	})
	t.Run("window over the bound", func(t *testing.T) {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		page := markup(1 << 20)
		for range 2 {
			_, _ = w.Write(page)
			_ = w.Flush()
		}
		_ = w.Close()
		url := answer(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.Bytes()))
		_, err = small.Get(t.Context(), &fetch.Request{URL: url})
		wantOutcome(t, err, link.OutcomeHTTPError)
	})
}

func TestBrokenCodings(t *testing.T) {
	f := newFetcher(t, nil)
	page := markup(5_000)
	respond := func(coding string, packed []byte) string {
		return answer(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(packed), packed))
	}
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		packed := pack(coding, page)
		t.Run(coding+" empty", func(t *testing.T) {
			resp := get(t, f, respond(coding, nil))
			defer resp.Release()
			if len(resp.Body) != 0 {
				t.Errorf("%d bytes", len(resp.Body))
			}
		})
		t.Run(coding+" cut short", func(t *testing.T) {
			_, err := f.Get(t.Context(), &fetch.Request{URL: respond(coding, packed[:len(packed)/2])})
			wantOutcome(t, err, link.OutcomeHTTPError)
		})
		t.Run(coding+" in name only", func(t *testing.T) {
			_, err := f.Get(t.Context(), &fetch.Request{URL: respond(coding, []byte("<!doctype html><title>not packed</title>"))})
			wantOutcome(t, err, link.OutcomeHTTPError)
		})
		t.Run(coding+" again", func(t *testing.T) { // the pooled decoder is whole
			resp := get(t, f, respond(coding, packed))
			defer resp.Release()
			if !bytes.Equal(resp.Body, page) {
				t.Error("body differs")
			}
		})
	}
	t.Run("garbage behind gzip", func(t *testing.T) {
		resp := get(t, f, respond("gzip", append(pack("gzip", page), "garbage that is no member"...)))
		defer resp.Release()
		if !bytes.Equal(resp.Body, page) {
			t.Error("body differs")
		}
	})
}
