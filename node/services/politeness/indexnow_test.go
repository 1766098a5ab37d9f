package politeness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/loop"
)

// noOptOuts is an empty list, except for one host.
type noOptOuts struct{}

func (noOptOuts) Host(host string) string {
	if host == "out.example" {
		return "the site has opted out"
	}
	return ""
}

func TestIndexNow(t *testing.T) {
	files := map[string]string{"https://a.example/abcd1234.txt": "abcd1234\n", "https://a.example/docs/key.txt": "abcd1234", "https://a.example/wrong123.txt": "other"}
	var got []*wire.Again
	n := newIndexNow(func(_ context.Context, req *fetch.Request) (*fetch.Response, error) {
		text, ok := files[req.URL]
		if !ok {
			return nil, errors.New("no answer")
		}
		return &fetch.Response{Status: 200, Body: []byte(text)}, nil
	}, noOptOuts{}, func(_ context.Context, m *wire.Again) error {
		got = append(got, m)
		return m.Validate()
	})
	n.proofs = loop.NewPaces(1, 1000, 1)
	for name, row := range map[string]struct {
		method, target, body string
		status, urls         int
	}{
		"one URL":         {"GET", "/indexnow?url=https://a.example/p&key=abcd1234", "", 200, 1},
		"a list":          {"POST", "/indexnow", `{"host":"A.example","key":"abcd1234","urlList":["https://a.example/p","https://a.example/q"]}`, 200, 2},
		"key elsewhere":   {"GET", "/indexnow?url=https://a.example/docs/p&key=abcd1234&keyLocation=https://a.example/docs/key.txt", "", 200, 1},
		"not below it":    {"GET", "/indexnow?url=https://a.example/p&key=abcd1234&keyLocation=https://a.example/docs/key.txt", "", 422, 0},
		"key of another":  {"GET", "/indexnow?url=https://a.example/p&key=abcd1234&keyLocation=https://b.example/abcd1234.txt", "", 422, 0},
		"wrong key":       {"GET", "/indexnow?url=https://a.example/p&key=wrong123", "", 403, 0},
		"no key file":     {"GET", "/indexnow?url=https://b.example/p&key=abcd1234", "", 403, 0},
		"opted out":       {"GET", "/indexnow?url=https://out.example/p&key=abcd1234", "", 403, 0},
		"a form":          {"POST", "/indexnow?url=https://a.example/p&key=abcd1234", `{"host":"a.example","key":"abcd1234","urlList":["https://a.example/p"]}`, 200, 1},
		"short key":       {"GET", "/indexnow?url=https://a.example/p&key=abc", "", 400, 0},
		"a path as key":   {"GET", "/indexnow?url=https://a.example/p&key=../../etc/passwd", "", 400, 0},
		"no URL":          {"GET", "/indexnow?key=abcd1234", "", 422, 0},
		"two hosts":       {"POST", "/indexnow", `{"key":"abcd1234","urlList":["https://a.example/p","https://b.example/q"]}`, 422, 0},
		"another host":    {"POST", "/indexnow", `{"host":"b.example","key":"abcd1234","urlList":["https://a.example/p"]}`, 422, 0},
		"no JSON":         {"POST", "/indexnow", `url=x`, 400, 0},
		"too long":        {"POST", "/indexnow", `{"key":"` + strings.Repeat("a", 2<<20) + `"}`, 400, 0},
		"another method":  {"PUT", "/indexnow", "", 405, 0},
		"too many":        {"POST", "/indexnow", `{"key":"abcd1234","urlList":["https://a.example/"` + strings.Repeat(`,"https://a.example/"`, 1024) + `]}`, 400, 0},
		"not even an URL": {"GET", "/indexnow?url=%00&key=abcd1234", "", 422, 0},
	} {
		got = nil
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), row.method, row.target, strings.NewReader(row.body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d does
		n.ServeHTTP(w, r)
		urls := 0
		for _, m := range got {
			urls += len(m.GetUrl())
		}
		if w.Code != row.status || urls != row.urls {
			t.Errorf("%s: status %d, %d URLs, want %d, %d: %s", name, w.Code, urls, row.status, row.urls, w.Body)
		}
	}
	n.proofs = loop.NewPaces(0, 0, 1)
	w := httptest.NewRecorder()
	n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/indexnow?url=https://a.example/p&key=abcd1234", nil))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status %d beyond the rate", w.Code)
	}
}
