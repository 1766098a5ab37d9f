//go:build unix

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const secret = "Bearer 8f1c20c2"

// guarded is a site that answers those alone who bring the secret; it links and redirects to
// another site, which notes who brings it.
func guarded(t *testing.T) (site string, leaked *atomic.Int64) {
	t.Helper()
	leaked = new(atomic.Int64)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fmt.Sprint(r.Header) != strings.ReplaceAll(fmt.Sprint(r.Header), secret, "") {
			leaked.Add(1)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>elsewhere at %s", r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	mine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.Header.Get("Authorization") != secret:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, elsewhere.URL+"/there", http.StatusFound)
		default:
			fmt.Fprintf(w, "<p>for friends, at %s <a href=/more>m</a> <a href=/moved>m</a> <a href=%s/linked>l</a>", r.URL, elsewhere.URL)
		}
	}))
	t.Cleanup(mine.Close)
	return mine.URL, leaked
}

// TestHeaderOfAHost: a field goes to its host alone, also where that leads elsewhere, and into the
// archive only if that is asked for.
func TestHeaderOfAHost(t *testing.T) {
	t.Parallel()
	site, leaked := guarded(t)
	for _, kept := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "peer")
		more := []string{"--archive", "none", "--scope", "127.0.0.1", "--header", site + ": authorization: " + secret, site}
		if kept {
			more = append(more, "--archive-headers")
		}
		out, code := say(t, crawlArgs(dir, more...)...)
		if code != exitDone || !strings.Contains(out, "\n4 pages, ") || leaked.Load() > 0 {
			t.Errorf("exit code %d, %d requests elsewhere with the secret: %s", code, leaked.Load(), out)
		}
		found := false
		if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if strings.Contains(string(raw), secret) {
				found = true
				if !kept {
					t.Errorf("%s has the secret", path)
				}
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if found != kept {
			t.Errorf("the secret is in the archive: %v, want %v", found, kept)
		}
	}
	out, code := say(t, "config", "show", "--header", site+": authorization: "+secret, "--proxy", "socks5://me:sesame@127.0.0.1:1")
	if code != exitDone || strings.Contains(out, secret) || strings.Contains(out, "sesame") || !strings.Contains(out, "authorization: ***") {
		t.Errorf("config show, exit code %d: %s", code, out)
	}
	for _, wrong := range []string{"Authorization: x", "a.example: Host: b", "a.example/x: A: b", "a.example: A B: c", "a.example: A"} {
		if out, code := say(t, crawlArgs(t.TempDir(), "--header", wrong, site)...); code != exitUsage || !strings.Contains(out, "header 1: ") {
			t.Errorf("%q: exit code %d: %s", wrong, code, out)
		}
	}
}

// proxies are a proxy that speaks CONNECT and one that speaks SOCKS5, both for a name and a
// password, and to whom they were asked to connect.
func proxies(t *testing.T) (by []string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var to []string
	pass := func(c net.Conn, address string) {
		mu.Lock()
		to = append(to, address)
		mu.Unlock()
		site, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer site.Close()
		go io.Copy(site, c) // ends with the connection
		_, _ = io.Copy(c, site)
	}
	serve := func(fn func(c net.Conn)) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					fn(c)
				}()
			}
		}()
		return ln.Addr().String()
	}
	tunnels := serve(func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic bWU6c2VzYW1l" {
			_, _ = io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		pass(c, r.Host)
	})
	socks := serve(func(c net.Conn) { // RFC 1928 and 1929, as far as it is used
		head := make([]byte, 2)
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(c, b)
			return b
		}
		_, _ = io.ReadFull(c, head)
		read(int(head[1]))
		_, _ = c.Write([]byte{5, 2})
		user := string(read(int(read(2)[1])))
		word := string(read(int(read(1)[0])))
		_, _ = c.Write([]byte{1, 0})
		ask := read(4)
		if user != "me" || word != "sesame" || ask[3] != 1 {
			return
		}
		ip := net.IP(read(4))
		address := fmt.Sprintf("%s:%d", ip, binary.BigEndian.Uint16(read(2)))
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		pass(c, address)
	})
	return []string{"http://me:sesame@" + tunnels, "socks5://me:sesame@" + socks}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := to
		to = nil
		return got
	}
}

// TestProxy: all that is asked of sites goes through the proxy, to addresses that the guard has let
// pass; what is wrong with one is said.
func TestProxy(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 5)
	at, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	by, to := proxies(t)
	for _, proxy := range by {
		before := asked.Load()
		out, code := say(t, crawlArgs(filepath.Join(t.TempDir(), "peer"), "--proxy", proxy, site)...)
		used := to()
		if code != exitDone || asked.Load()-before != 5 || len(used) == 0 {
			t.Errorf("%s: exit code %d, %d requests, %d connections: %s", proxy, code, asked.Load()-before, len(used), out)
		}
		for _, address := range used {
			if address != at.Host {
				t.Errorf("%s was asked for %s", proxy, address)
			}
		}
		guarded := []string{"run", "--until-idle", "--data-dir", filepath.Join(t.TempDir(), "peer"), "--dashboard", "off", "--proxy", proxy, site}
		if out, code := say(t, guarded...); code != exitRefused || len(to()) > 0 {
			t.Errorf("%s, a private address: exit code %d: %s", proxy, code, out)
		}
		wrong := strings.Replace(proxy, "sesame", "tahini", 1)
		out, code = say(t, crawlArgs(filepath.Join(t.TempDir(), "peer"), "--retries", "0", "--proxy", wrong, site)...)
		if code == exitDone || !strings.Contains(out, "proxy: ") || strings.Contains(out, "tahini") {
			t.Errorf("%s: exit code %d: %s", wrong, code, out)
		}
	}
	for _, wrong := range []string{"127.0.0.1:1", "socks5://127.0.0.1", "https://a.example:1", "http://a:b@c:1/x"} {
		if out, code := say(t, crawlArgs(t.TempDir(), "--proxy", wrong, site)...); code != exitUsage || !strings.Contains(out, "must be socks5://HOST:PORT") || strings.Contains(out, "a:b") {
			t.Errorf("%q: exit code %d: %s", wrong, code, out)
		}
	}
}
