package webgen

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadChanges(t *testing.T) {
	const head = "page,host,unix_s\n"
	for _, c := range []struct{ name, text, want string }{
		{"two hosts", head + "a,x,100\nb,y,100\nc,x,100\na,x,200\n", "[[[100 200] [100]] [[100]]]"},
		{"the same page on two hosts", head + "a,x,100\na,y,100\n", "[[[100]] [[100]]]"},
		{"no column", "page,unix_s\na,1\n", `line 1: missing column "host"`},
		{"no rows", head, "no pages"},
		{"no page", head + ",x,1\n", `line 2, column page: "" needs a page and a host`},
		{"no host", head + "a,,1\n", `line 2, column page: "a" needs a page and a host`},
		{"no number", head + "a,x,1\nb,x,1e3\n", `line 3, column unix_s: "1e3" is not a time in Unix seconds`},
		{"negative", head + "a,x,-1\n", `line 2, column unix_s: "-1" is not a time`},
		{"too late", head + "a,x,8589934592\n", "line 2, column unix_s"},
		{"backwards", head + "a,x,5\na,x,4\n", `line 3, column unix_s: "4" is before the last row of the page`},
		{"too many fields", head + "a,x,5,6\n", "line 2: wrong number of fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, packed := filepath.Join(t.TempDir(), "c.csv"), filepath.Join(t.TempDir(), "c.csv.gz")
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			_, _ = w.Write([]byte(c.text))
			_ = w.Close()
			_ = os.WriteFile(plain, []byte(c.text), 0o600)
			_ = os.WriteFile(packed, z.Bytes(), 0o600)
			for _, path := range []string{plain, packed} {
				got, err := ReadChanges(path)
				if text := fmt.Sprint(got, err); !strings.Contains(text, c.want) || err != nil && !strings.Contains(text, path) {
					t.Errorf("%s: got %s, want %s", path, text, c.want)
				}
			}
		})
	}
}

func FuzzReadChanges(f *testing.F) {
	f.Add("page,host,unix_s\na,x,100\nb,y,100\na,x,200\n")
	f.Add("unix_s,host,page\n1,\"a\nb\",c\n")
	f.Fuzz(func(t *testing.T, text string) {
		var c Changes
		if err := c.read(bufio.NewReader(strings.NewReader(text))); err == nil {
			w := New(Config{Changes: c})
			for h := range c {
				if n := w.pages(h); n < 2 {
					t.Fatalf("host %d has %d pages", h, n)
				}
			}
		}
	})
}

// changingWeb is a host of 400 pages: odd ones change at 100 s and 200 s of the file, others never.
func changingWeb(log *bytes.Buffer) *Web {
	c := Changes{make([][]int64, 400)}
	for i := range c[0] {
		if c[0][i] = []int64{1000}; i%2 == 0 {
			c[0][i] = append(c[0][i], 1100, 1200)
		}
	}
	return New(Config{Changes: c, Speed: 10, Log: log, PageBytes: 300})
}

// fetched requests a page with validators and returns the response.
func fetched(w *Web, path, etag, since string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "http://h0.web.localhost"+path, nil)
	for name, v := range map[string]string{"If-None-Match": etag, "If-Modified-Since": since} {
		if v != "" {
			req.Header.Set(name, v)
		}
	}
	rw := httptest.NewRecorder()
	w.Handler().ServeHTTP(rw, req)
	return rw
}

func TestPagesChangeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := changingWeb(&log)
		paths := make([]string, 401)
		for n := range paths {
			paths[n] = string(appendPath(nil, n))
		}
		first := make([]*httptest.ResponseRecorder, len(paths))
		for n, path := range paths {
			first[n] = fetched(w, path, "", "")
			if first[n].Code != http.StatusOK {
				t.Fatalf("%s: status %d", path, first[n].Code)
			}
			if n > 0 && !strings.Contains(first[0].Body.String(), `"`+path+`"`) {
				t.Errorf("page 0 does not link %s", path)
			}
		}
		time.Sleep(15 * time.Second) // 150 s of the file
		habits, unasked := make(map[string]int), 0
		for n, path := range paths {
			changes, habit := n%2 == 1, w.Habit(0, n)
			habits[habit]++
			h := first[n].Header()
			etag, since := h.Get("ETag"), h.Get("Last-Modified")
			want := map[bool]int{true: http.StatusOK, false: http.StatusNotModified}[changes]
			switch habit {
			case "lies":
				want = http.StatusNotModified
			case "nonce":
				if want = http.StatusOK; since != "" {
					t.Errorf("%s has a nonce and Last-Modified", path)
				}
			}
			byTag := fetched(w, path, etag, since)
			if byTag.Code != want {
				t.Errorf("%s (%s): status %d to its ETag, want %d", path, habit, byTag.Code, want)
			}
			if since != "" {
				if got := fetched(w, path, "", since); got.Code != want {
					t.Errorf("%s (%s): status %d to its Last-Modified, want %d", path, habit, got.Code, want)
				}
			}
			again := fetched(w, path, "", "")
			if again.Code == http.StatusNotModified {
				if unasked++; habit != "unasked" {
					t.Errorf("%s (%s): 304 without a condition", path, habit)
				}
				continue
			}
			if same := bytes.Equal(again.Body.Bytes(), first[n].Body.Bytes()); same != (!changes && habit != "nonce") {
				t.Errorf("%s (%s): the same body %v", path, habit, same)
			}
			if changes && habit == "honest" {
				at, err := http.ParseTime(again.Header().Get("Last-Modified"))
				if want := w.begun.Add(10 * time.Second).Truncate(time.Second); err != nil || !at.Equal(want) {
					t.Errorf("%s: Last-Modified %v, want %v", path, at, want)
				}
			}
		}
		for habit, share := range map[string]float64{"honest": .65, "lies": .1, "unasked": .05, "nonce": .2} {
			if got := float64(habits[habit]) / float64(len(paths)); got < share-.05 || got > share+.05 {
				t.Errorf("%.3f of the pages: %s, want about %v", got, habit, share)
			}
		}
		if unasked == 0 {
			t.Error("no 304 without a condition")
		}
		lines, changed := 0, 0
		for dec := json.NewDecoder(&log); dec.More(); lines++ {
			var s Served
			if err := dec.Decode(&s); err != nil {
				t.Fatal(err)
			}
			if changed += s.Version; s.Host != "h0.web.localhost" || s.At.IsZero() || s.UnixS != 1000 && s.UnixS != 1150 || s.Conditional && s.Status == 0 {
				t.Fatalf("line of the log %+v", s)
			}
		}
		if lines < 3*len(paths) || changed == 0 {
			t.Errorf("%d lines in the log, %d changes", lines, changed)
		}
	})
}
