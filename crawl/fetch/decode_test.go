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
	"sync"
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
// without a length. Each path is packed once.
func packedServer(t *testing.T, body []byte) *httptest.Server {
	var mu sync.Mutex // guards packed
	packed := make(map[string][]byte)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codings := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), ",")
		mu.Lock()
		out, ok := packed[r.URL.Path]
		if !ok {
			out = body
			for _, c := range codings {
				out = pack(c, out)
			}
			packed[r.URL.Path] = out
		}
		mu.Unlock()
		w.Header().Set("Content-Encoding", strings.ReplaceAll(strings.Join(codings, ", "), "raw ", ""))
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
	f := newFetcher(t, patient)
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
	small := newFetcher(t, func(c *fetch.Config) { patient(c); c.MaxBody = 1 << 20 })
	large := newFetcher(t, patient)
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
		resp, err := small.Get(t.Context(), &fetch.Request{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Release()
		if !bytes.Equal(resp.Body, b.Bytes()) || !strings.Contains(string(resp.ResponseHead), "\r\nContent-Encoding: zstd\r\n") {
			t.Errorf("%d bytes stored, want the %d sent: %q", len(resp.Body), b.Len(), resp.ResponseHead)
		}
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
		t.Run(coding+" again", func(t *testing.T) { // the pooled decoder is whole
			resp := get(t, f, respond(coding, packed))
			defer resp.Release()
			if !bytes.Equal(resp.Body, page) {
				t.Error("body differs")
			}
		})
	}
}

// gzipWith packs body with a header that has fields before the data.
func gzipWith(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// changed returns packed with the byte so far from its end changed.
func changed(packed []byte, fromEnd int) []byte {
	out := bytes.Clone(packed)
	out[len(out)-fromEnd] ^= 0x55
	return out
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestBrokenBodies covers bodies that do not decode or do not end as announced. What arrived is
// stored: decoded as far as it can be, or as sent.
func TestBrokenBodies(t *testing.T) {
	page := markup(20_000)
	plain := []byte("<!doctype html><title>not packed</title><a href=/x>" + strings.Repeat("some text ", 50))
	binary := append([]byte{0, 1, 2, 3, 255, 254}, noise(2_000)...)
	gz, br, zst, zlib := pack("gzip", page), pack("br", page), pack("zstd", page), pack("deflate", page)
	const whole, beginning, asSent = 0, 1, 2 // what is stored
	for _, tt := range []struct {
		name, coding string
		sent         []byte
		missing      int // of what Content-Length announces
		want         int
		truncated    fetch.Truncation
	}{
		{"gzip without trailer", "gzip", gz[:len(gz)-8], 0, whole, ""},
		{"gzip with half a trailer", "gzip", gz[:len(gz)-3], 0, whole, ""},
		{"gzip with a wrong checksum", "gzip", changed(gz, 6), 0, whole, ""},
		{"gzip with a wrong size", "gzip", changed(gz, 2), 0, whole, ""},
		{"gzip with a long header", "gzip", gzipWith(page), 0, whole, ""},
		{"gzip with junk behind", "gzip", join(gz, plain), 0, whole, ""},
		{"gzip with a magic number behind", "gzip", join(gz, []byte("\x1f\x8b\x08")), 0, whole, ""},
		{"gzip cut in its data", "gzip", gz[:len(gz)/2], 0, beginning, fetch.TruncatedUnspecified},
		{"gzip cut by the connection", "gzip", gz[:len(gz)/2], 10, beginning, fetch.TruncatedDisconnect},
		{"gzip cut in its header", "gzip", gzipWith(page)[:14], 0, asSent, fetch.TruncatedUnspecified},
		{"gzip named twice", "gzip, gzip", gz, 0, whole, ""},
		{"gzip in name only", "gzip", plain, 0, asSent, ""},
		{"gzip in name only, binary", "gzip", binary, 0, asSent, ""},
		{"gzip in name only, one byte", "gzip", []byte("a"), 0, asSent, ""},
		{"gzip in name only, cut", "gzip", plain, 1, asSent, fetch.TruncatedDisconnect},
		{"gzip without data", "gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"), 0, asSent, ""},
		{"br cut", "br", br[:len(br)/2], 0, beginning, fetch.TruncatedUnspecified},
		{"br cut by the connection", "br", br[:len(br)/2], 10, beginning, fetch.TruncatedDisconnect},
		{"br with junk behind", "br", join(br, plain), 0, whole, ""},
		{"br named twice", "br, br", br, 0, whole, ""},
		{"br in name only", "br", plain, 0, asSent, ""},
		{"br in name only, binary", "br", binary, 0, asSent, ""},
		{"zstd cut", "zstd", zst[:len(zst)/2], 0, asSent, fetch.TruncatedUnspecified},
		{"zstd without checksum", "zstd", zst[:len(zst)-4], 0, whole, ""},
		{"zstd with a wrong checksum", "zstd", changed(zst, 2), 0, whole, ""},
		{"zstd with junk behind", "zstd", join(zst, plain), 0, whole, ""},
		{"zstd with a byte behind", "zstd", join(zst, []byte("\n")), 0, whole, ""},
		{"zstd in name only", "zstd", plain, 0, asSent, ""},
		{"zstd in name only, binary", "zstd", binary, 0, asSent, ""},
		{"deflate without checksum", "deflate", zlib[:len(zlib)-4], 0, whole, ""},
		{"deflate with a wrong checksum", "deflate", changed(zlib, 2), 0, whole, ""},
		{"deflate with junk behind", "deflate", join(zlib, plain), 0, whole, ""},
		{"deflate cut", "deflate", zlib[:len(zlib)/2], 0, beginning, fetch.TruncatedUnspecified},
		{"deflate in name only", "deflate", plain, 0, asSent, ""},
		{"deflate in name only, text that begins like a stream", "deflate", []byte("body of plain text, " + string(plain)), 0, asSent, ""},
		{"none, cut by the connection", "identity", page[:100], 10, beginning, fetch.TruncatedDisconnect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n", tt.coding, len(tt.sent)+tt.missing)
			resp := get(t, newFetcher(t, nil), answer(t, head+string(tt.sent)))
			defer resp.Release()
			switch {
			case tt.want == whole && !bytes.Equal(resp.Body, page),
				tt.want == beginning && (len(resp.Body) < 50 || len(resp.Body) >= len(page) || !bytes.HasPrefix(page, resp.Body)),
				tt.want == asSent && !bytes.Equal(resp.Body, tt.sent):
				t.Errorf("%d bytes of %d, %d sent: %.60q", len(resp.Body), len(page), len(tt.sent), resp.Body)
			}
			if resp.Truncated != tt.truncated {
				t.Errorf("truncated %q, want %q", resp.Truncated, tt.truncated)
			}
			archived := "\r\nContent-Encoding: " + tt.coding + "\r\n"
			if decoded := !strings.Contains(string(resp.ResponseHead), archived); tt.coding != "identity" && decoded != (tt.want != asSent) {
				t.Errorf("head %q", resp.ResponseHead)
			}
			if !strings.Contains(string(resp.ResponseHead), fmt.Sprintf("\r\nContent-Length: %d\r\n", len(resp.Body))) {
				t.Errorf("length of %d bytes: %q", len(resp.Body), resp.ResponseHead)
			}
		})
	}
}

// TestBrokenChunks covers chunked bodies that do not end, or break off.
func TestBrokenChunks(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	gz := pack("gzip", []byte("hello"))
	for _, tt := range []struct {
		name, response string
		truncated      fetch.Truncation
	}{
		{"no last chunk", head, fetch.TruncatedDisconnect},
		{"no end of the last chunk", head + "0", fetch.TruncatedDisconnect},
		{"no empty line", head + "0\r\n", ""},
		{"no end of a chunk", strings.TrimSuffix(head, "\r\n"), fetch.TruncatedDisconnect},
		{"a size that is none", head + "zz\r\nhello\r\n0\r\n\r\n", fetch.TruncatedUnspecified},
		{"a chunk that is too long", head[:len(head)-2] + "junk\r\n0\r\n\r\n", fetch.TruncatedUnspecified},
		{
			"gzip without a last chunk", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(gz), gz),
			fetch.TruncatedDisconnect,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := get(t, newFetcher(t, nil), answer(t, tt.response))
			defer resp.Release()
			if string(resp.Body) != "hello" || resp.Truncated != tt.truncated {
				t.Errorf("%q, truncated %q, want %q", resp.Body, resp.Truncated, tt.truncated)
			}
		})
	}
}

// TestBodyInNameOnlyOverBound cuts a body that is not in the coding it names like any other.
func TestBodyInNameOnlyOverBound(t *testing.T) {
	f := newFetcher(t, nil)
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		url := answer(t, "HTTP/1.1 200 OK\r\nContent-Encoding: "+coding+"\r\n\r\n"+strings.Repeat("<p>plain text", 1000))
		resp, err := f.Get(t.Context(), &fetch.Request{URL: url, MaxBytes: 1000, Cut: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Body) != 1000 || resp.Truncated != fetch.TruncatedLength {
			t.Errorf("%s: %d bytes, truncated %q", coding, len(resp.Body), resp.Truncated)
		}
		resp.Release()
		_, err = f.Get(t.Context(), &fetch.Request{URL: url, MaxBytes: 1000})
		wantOutcome(t, err, link.OutcomeTooLarge)
	}
}
