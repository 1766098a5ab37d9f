package fetch_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// canned is a connection on which a stranger has said all that he will say.
type canned struct {
	net.Conn
	in *bytes.Reader
}

func (c canned) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c canned) Write(p []byte) (int, error)      { return len(p), nil }
func (c canned) Close() error                     { return nil }
func (c canned) SetDeadline(time.Time) error      { return nil }
func (c canned) SetReadDeadline(time.Time) error  { return nil }
func (c canned) SetWriteDeadline(time.Time) error { return nil }

// Whatever a server sends, what goes to the archive is a response that another reader takes apart
// into the same.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200\n\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 301 Moved\r\nLocation: /x\r\n y\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 4\r\n\r\n\x4b\x04\x00\x00",
		"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 8\r\n\r\n\x0b\x01\x80ok\x03",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	for _, coding := range []string{"gzip", "zstd", "br"} {
		body := pack(coding, []byte("packed"))
		f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\n\r\n" + string(body)))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		client := newFetcher(t, func(c *fetch.Config) {
			c.MaxBody = 1 << 20
			c.Dial = func(context.Context, string, string) (net.Conn, error) { return canned{in: bytes.NewReader(said)}, nil }
		})
		resp, err := client.Get(t.Context(), &fetch.Request{URL: "http://site.example/"})
		if err != nil {
			return
		}
		defer resp.Release()
		archived := io.MultiReader(bytes.NewReader(resp.ResponseHead), bytes.NewReader(resp.Body))
		read, err := http.ReadResponse(bufio.NewReader(archived), nil)
		if err != nil {
			t.Fatalf("archived response %q: %v", resp.ResponseHead, err)
		}
		body, err := io.ReadAll(read.Body)
		if err != nil {
			t.Fatalf("archived body: %v", err)
		}
		if read.StatusCode != resp.Status || !bytes.Equal(body, resp.Body) {
			t.Errorf("read back %d with %d bytes, was %d with %d", read.StatusCode, len(body), resp.Status, len(resp.Body))
		}
	})
}

// A URL that is taken makes one request line and one Host line, whatever stands in it.
func FuzzRequest(f *testing.F) {
	f.Add("http://site.example/a?b#c")
	f.Add("https://[::1]:8443/%zz|")
	f.Add("http://a\r\nX: y/")
	f.Fuzz(func(t *testing.T, url string) {
		client := newFetcher(t, func(c *fetch.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return canned{in: bytes.NewReader([]byte("HTTP/1.1 204 No Content\r\n\r\n"))}, nil
			}
		})
		resp, err := client.Get(t.Context(), &fetch.Request{URL: url})
		if err != nil {
			return
		}
		defer resp.Release()
		if n := bytes.Count(resp.RequestHead, []byte("\n")); n != 6 {
			t.Errorf("request head of %d lines: %q", n, resp.RequestHead)
		}
	})
}
