package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// loopback resolves every name to this machine.
type loopback struct{}

func (loopback) Lookup(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// markup returns n bytes that pack as pages do.
func markup(n int) []byte {
	words := []string{"<li><a href=\"/wiki/", "\">", "</a></li>\n", "honey", "comb", "nectar", "hive", " ", "swarm"}
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteString(strconv.Itoa(rng.IntN(1000)))
	}
	return b.Bytes()[:n]
}

// lean serves page over keep-alive connections with as little work as a server can do, so that the
// benchmark's CPU is the client's.
func lean(b *testing.B, page []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: lean\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"5f\"\r\n"+
		"Last-Modified: Sun, 01 Mar 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4<<10)
				for {
					if n, err := c.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
						return
					}
					if _, err := c.Write(response); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// One page of 38 kB over a keep-alive connection, by this package and by net/http.
func BenchmarkGet(b *testing.B) {
	page := markup(38_000)
	url := lean(b, page) + "/page"
	b.Run("fetch", func(b *testing.B) {
		f, err := fetch.New(fetch.Config{UserAgent: "apoidea/bench", Resolver: loopback{}, AllowPrivate: true})
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		req := &fetch.Request{URL: url}
		b.SetBytes(int64(len(page)))
		b.ReportAllocs()
		for b.Loop() {
			resp, err := f.Get(b.Context(), req)
			if err != nil {
				b.Fatal(err)
			}
			resp.Release()
		}
	})
	b.Run("net-http", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		var buf bytes.Buffer
		b.SetBytes(int64(len(page)))
		b.ReportAllocs()
		for b.Loop() {
			resp, err := client.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			buf.Reset()
			if _, err := buf.ReadFrom(resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
}
