package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// site is a server on loopback that answers each request with bytes as they are and closes the
// connection. Names below localhost lead to it.
type site struct {
	port int
	// answer returns the raw response; "" is a 404.
	answer func(r *http.Request, host string) string

	mu    sync.Mutex // guards asked
	asked []string   // host/path of each request
}

// serve starts a site.
func (t *trial) serve(answer func(r *http.Request, host string) string) *site {
	ln := harness.Must((&net.ListenConfig{}).Listen(t, "tcp", "127.0.0.1:0"))
	s := &site{port: ln.Addr().(*net.TCPAddr).Port, answer: answer}
	t.group.Go(func() {
		<-t.Done()
		ln.Close()
	})
	t.group.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.group.Go(func() { s.handle(c) })
		}
	})
	return s
}

// pages starts a site of pages by path, the same on each host.
func (t *trial) pages(by map[string]string) *site {
	return t.serve(func(r *http.Request, _ string) string { return by[r.RequestURI] })
}

func (s *site) handle(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	host := s.note(r)
	raw := s.answer(r, host)
	if raw == "" {
		raw = response("404 Not Found", "nothing here", "Content-Type: text/plain")
	}
	_, _ = io.WriteString(c, raw)
	if t, ok := c.(*net.TCPConn); ok { // a reset would take away what was sent
		_ = t.CloseWrite()
		_, _ = io.Copy(io.Discard, t)
	}
}

func (s *site) note(r *http.Request) string {
	host, _, _ := strings.Cut(r.Host, ":")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, host+r.RequestURI)
	return host
}

// url is the URL of a path on a host of the site, which is completed by .localhost.
func (s *site) url(host, path string) string {
	return fmt.Sprintf("http://%s.localhost:%d%s", host, s.port, path)
}

// count returns how often a path was asked for, on any host if the host is "".
func (s *site) count(host, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		h, p, _ := strings.Cut(a, "/")
		if "/"+p == path && (host == "" || h == host+".localhost") {
			n++
		}
	}
	return n
}

// total returns the requests but those for robots.txt.
func (s *site) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if !strings.HasSuffix(a, "/robots.txt") {
			n++
		}
	}
	return n
}

// raw is a response with a body as it is and no field about its length.
func raw(status, body string, fields ...string) string {
	return "HTTP/1.1 " + status + "\r\n" + strings.Join(append(fields, "Connection: close"), "\r\n") + "\r\n\r\n" + body
}

// response is a whole response.
func response(status, body string, fields ...string) string {
	return raw(status, body, append(fields, fmt.Sprintf("Content-Length: %d", len(body)))...)
}

// page is an HTML page with links; its title is its text.
func page(text string, links ...string) string {
	return response("200 OK", html(text, links...), "Content-Type: text/html")
}

func html(text string, links ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<html><head><title>%s</title></head><body><p>words of %s", text, text)
	for _, l := range links {
		fmt.Fprintf(&b, ` <a href="%s">next</a>`, l)
	}
	return b.String() + "</body></html>"
}

func redirect(to string) string { return response("302 Found", "", "Location: "+to) }
