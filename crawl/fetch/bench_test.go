package fetch_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

func BenchmarkGet(b *testing.B) {
	page := markup(38_000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	}))
	defer srv.Close()
	b.Run("fetch", func(b *testing.B) {
		f, err := fetch.New(fetch.Config{UserAgent: "apoidea/bench", Resolver: loopback{}, AllowPrivate: true})
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		req := &fetch.Request{URL: srv.URL + "/page"}
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
			resp, err := client.Get(srv.URL + "/page")
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
