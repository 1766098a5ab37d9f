package fetch_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// TestHostFields: over HTTP/1.1 and HTTP/2, a field goes to its origin alone, and the head for the
// archive is without it unless that is asked for.
func TestHostFields(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Cookie"))
			}))
			if http2 {
				onlyHTTP2(s)
			}
			s.StartTLS()
			fields := make(fetch.HostFields)
			for _, text := range []string{strings.TrimPrefix(s.URL, "https://") + ": cookie: a=1", "http://127.0.0.1: X-Other: b", "other.example: Cookie: c=2"} {
				if err := fields.Add(text); err != nil {
					t.Fatal(err)
				}
			}
			f := newFetcher(t, func(c *fetch.Config) {
				c.HostFields, c.ArchiveHostFields = fields, kept
				c.Lab().RootCAs = x509.NewCertPool()
				c.Lab().RootCAs.AddCert(s.Certificate())
			})
			resp := get(t, f, s.URL+"/")
			want := map[bool]string{false: "HTTP/1.1 a=1", true: "HTTP/2.0 a=1"}[http2]
			if head := string(resp.RequestHead); string(resp.Body) != want || strings.Contains(head, "Cookie: a=1") != kept || strings.Contains(head, "X-Other") {
				t.Errorf("HTTP/2 %v, kept %v: the server got %q; head %q", http2, kept, resp.Body, head)
			}
			resp.Release()
			f.Close()
			s.Close()
		}
	}
}

// FuzzHostFields: whatever is taken is a host and a field that can be sent.
func FuzzHostFields(f *testing.F) {
	f.Add("a.example: Authorization: Basic x")
	f.Add("http://a.example:8080: Cookie: a=b; c=d")
	f.Fuzz(func(t *testing.T, text string) {
		h := make(fetch.HostFields)
		if h.Add(text) != nil {
			if len(h) > 0 {
				t.Errorf("%q is refused, and there", text)
			}
			return
		}
		for origin, fields := range h {
			if !strings.Contains(origin, "://") || len(fields) != 1 {
				t.Errorf("%q: %q %v", text, origin, fields)
			}
			for name, values := range fields {
				if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
					t.Errorf("%q: %q %q", text, name, values)
				}
			}
		}
	})
}
