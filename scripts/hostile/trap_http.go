package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// bodiesFamily fills memory. A good crawler reserves memory before it reads a body, fetches all
// pages within the size limit, and stops reading at the limit, decoded or not.
var bodiesFamily = family{
	name: "bodies",
	does: "64 hosts with pages of 15 MiB, endless bodies, bombs of gzip, br and zstd",
	traps: map[string]trap{
		"large": {hosts: largeHosts, serve: func(x exchange) {
			x.rw.Header().Set("Content-Length", fmt.Sprint(largeBody))
			x.endless(largeBody)
		}},
		"endless": {serve: func(x exchange) {
			c, buf := x.hijack()
			defer c.Close()
			text := prose(x.name, 6000)
			_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
			for buf.Flush() == nil && x.w.ctx.Err() == nil {
				_, _ = buf.WriteString(text)
			}
		}},
		"chunked": {serve: func(x exchange) { x.endless(1 << 40) }},
		"gzip":    {serve: func(x exchange) { x.bomb("gzip") }},
		"br":      {serve: func(x exchange) { x.bomb("br") }},
		"zstd":    {serve: func(x exchange) { x.bomb("zstd") }},
	},
	within: 4 * time.Minute,
	check: func(j *judge) {
		lost := 0
		for _, url := range j.w.urls(j.family.name, numbered("large%d", largeHosts)...) {
			if j.urls[url] != "ok" {
				lost++
			}
		}
		if lost > 0 {
			j.blame("%d of %d pages of %d MiB were not fetched", lost, largeHosts, largeBody>>20)
		}
		for _, h := range j.hosts {
			if h.Bytes > mostBytes && !strings.HasPrefix(h.Host, "large") {
				j.blame("%s sent %d MiB, bound %d", h.Host, h.Bytes>>20, mostBytes>>20)
			}
		}
	},
}

const (
	largeHosts = 64
	largeBody  = 15 << 20
	bombSize   = 512 << 20
	// mostBytes bounds what a host may send whose body has no end: the limit of a body for each
	// try, and the kernel's buffers.
	mostBytes = 64 << 20
)

// endless sends text up to a number of bytes, as long as the client reads.
func (x exchange) endless(most int) {
	x.rw.Header().Set("Content-Type", htmlType)
	text := "<p>" + prose(x.name+x.r.URL.Path, 6000) + "</p>\n"
	for sent := 0; sent < most && x.w.ctx.Err() == nil; sent += len(text) {
		if _, err := io.WriteString(x.rw, text[:min(len(text), most-sent)]); err != nil {
			return
		}
	}
}

// bomb sends bombSize of nothing, compressed.
func (x exchange) bomb(coding string) {
	x.rw.Header().Set("Content-Type", htmlType)
	x.rw.Header().Set("Content-Encoding", coding)
	_, _ = x.rw.Write(bombs()[coding])
}

var bombs = sync.OnceValue(func() map[string][]byte {
	all := make(map[string][]byte)
	for coding, open := range map[string]func(w io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed); return z },
		"br":   func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 4) },
		"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return z },
	} {
		var out bytes.Buffer
		z := open(&out)
		nothing := bytes.Repeat([]byte{' '}, 1<<20)
		for range bombSize >> 20 {
			_, _ = z.Write(nothing)
		}
		_ = z.Close()
		all[coding] = out.Bytes()
	}
	return all
})

// dripsFamily occupies fetchers. A good crawler bounds each phase of an exchange in time and a body
// by a least rate, retries once or twice later, and keeps fetchers for other hosts.
var dripsFamily = family{
	name: "drips",
	does: "heads, bodies and robots.txt of a byte a second, no answer at all, answers that stop; 48 such hosts",
	traps: map[string]trap{
		"silent": {hosts: 48, serve: holds("")},
		"head":   {serve: drips("HTTP/1.1 200 OK\r\nX-Drip: ", "a")},
		"body":   {serve: drips(ok("Content-Length: 100000\r\n", ""), "a")},
		"chunk":  {serve: drips(ok("Transfer-Encoding: chunked\r\n", ""), "1\r\na\r\n")},
		"stall":  {serve: holds(ok("Content-Length: 100000\r\n", prose("stall", 500)))},
		"robots": {robots: drips("HTTP/1.1 200 OK\r\nX-Drip: ", "a")},
		"never":  {robots: holds("")},
		"h2body": {https: true, serve: func(x exchange) {
			for end := time.Now().Add(dripsFor); time.Now().Before(end); {
				_, err := io.WriteString(x.rw, "a")
				if err != nil || http.NewResponseController(x.rw).Flush() != nil || !x.pause(time.Second) {
					return
				}
			}
		}},
		"h2never": {https: true, serve: func(x exchange) { x.pause(dripsFor) }},
	},
	within: 4 * time.Minute,
}

// dripsFor is longer than any timeout of a crawler.
const dripsFor = 3 * time.Minute

func drips(begin, piece string) func(x exchange) {
	return func(x exchange) {
		c, _ := x.hijack()
		defer c.Close()
		_, _ = io.WriteString(c, begin)
		x.w.drip(c, piece, time.Second, dripsFor)
	}
}

// holds sends the beginning of an answer, and nothing more.
func holds(begin string) func(x exchange) {
	return func(x exchange) {
		c, _ := x.hijack()
		defer c.Close()
		_, _ = io.WriteString(c, begin)
		x.w.hold(c, dripsFor)
	}
}

// http1Family violates HTTP/1.1. A good crawler never takes bytes for the answer to another request
// (it never asks for /poison), limits heads and interim answers, and records an outcome for each
// URL. What single answers lead to is in crawl/fetch: TestResponses, TestBrokenBodies.
var http1Family = family{
	name:  "http1",
	does:  "floods of fields and 1xx, surplus and unasked answers, early ends, resets",
	quick: true,
	traps: http1Traps(),
	check: func(j *judge) {
		for name := range j.family.traps {
			if j.asked(name, "/poison") > 0 {
				j.blame("%s: a surplus answer was taken for that of a request", name)
			}
			if j.urls[j.w.url(j.family.name, name, "/")] == "" {
				j.blame("%s: no outcome on record", name)
			}
		}
	},
}

// poison is an answer that must never be read as one.
const poison = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\n\r\n<a href=\"/poison\">x</a>   \n"

func ok(fields, body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + fields + "\r\n" + body
}

// chain is a body that leads to the next pages, so that a connection is used again.
const chain = `<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>`

// http1Answers are complete answers; where a connection stays open, the client has received bytes
// that look like the next answer.
var http1Answers = map[string]string{
	"short":      ok("Content-Length: 10\r\n", chain+poison),
	"both":       ok(fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(chain)), "0\r\n\r\n"+poison),
	"surplus":    ok(fmt.Sprintf("Content-Length: %d\r\n", len(chain)), chain+poison+poison),
	"nocontent":  "HTTP/1.1 204 No Content\r\nContent-Length: 100\r\n\r\n" + poison,
	"unmodified": "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n" + poison,
	"switch":     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + poison,
	"extension":  ok("Transfer-Encoding: chunked\r\n", "36;"+strings.Repeat("a", 100_000)+"\r\n"+chain+"\r\n0\r\n\r\n"),
	"trailers":   ok("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("X-T: a\r\n", 50_000)+"\r\n"),
	"tiny":       "HTTP/1.1 200 OK\r\n" + tinyFields(15_000) + "Content-Length: 54\r\n\r\n" + chain,
	"garbage":    strings.Repeat("\x00\xff\r\n", 1000),
	"empty":      "",
}

// tinyFields are fields of one or two letters and no value, of which a map takes a hundred times
// their bytes.
func tinyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.FormatInt(int64(i), 36) + ":\n")
	}
	return b.String()
}

func http1Traps() map[string]trap {
	page := ok(fmt.Sprintf("Content-Length: %d\r\n", len(chain)), chain)
	floods := map[string]func(w *world, c net.Conn, in *bufio.Reader){
		"idle": func(w *world, c net.Conn, in *bufio.Reader) { // an answer on an idle connection
			_, _ = io.WriteString(c, page)
			w.endVisit(c, false)
			if unasked(c, in) { // otherwise it would be the answer to a request
				_, _ = io.WriteString(c, poison)
			}
			w.hold(c, 5*time.Second)
		},
		"reuse": func(w *world, c net.Conn, in *bufio.Reader) { // the connection ends when it is used again
			_, _ = io.WriteString(c, page)
			w.endVisit(c, false)
			w.nextRequest(c, in)
			reset(c)
		},
		"interim": func(w *world, c net.Conn, _ *bufio.Reader) {
			w.flood(c, "HTTP/1.1 100 Continue\r\n\r\n", 128<<10)
		},
		"hints": func(w *world, c net.Conn, _ *bufio.Reader) {
			w.drip(c, "HTTP/1.1 103 Early Hints\r\nLink: </poison>; rel=preload\r\n\r\n", time.Millisecond, 5*time.Second)
		},
		"fields": func(w *world, c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			w.flood(c, "X-Field: "+strings.Repeat("a", 1000)+"\r\n", 64<<20)
		},
		"endless-line": func(w *world, c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 ")
			w.flood(c, strings.Repeat("a", 64<<10), 64<<20)
		},
	}
	for name, answer := range http1Answers {
		floods[name] = func(w *world, c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, answer)
			w.endVisit(c, false)
			w.hold(c, 500*time.Millisecond)
		}
	}
	traps := make(map[string]trap)
	for name, flood := range floods {
		traps[name] = trap{serve: func(x exchange) {
			c, buf := x.hijack()
			defer c.Close()
			flood(x.w, c, buf.Reader)
		}}
	}
	return traps
}

// unasked waits a moment, shorter than a peer's delay, and reports whether no request has come on
// the connection, nor can be on its way: on a busy machine the moment may be longer.
func unasked(c net.Conn, in *bufio.Reader) bool {
	begun := time.Now()
	_ = c.SetReadDeadline(begun.Add(5 * time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	_, err := in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && time.Since(begun) < trialDelay/2
}
