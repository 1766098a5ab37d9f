package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
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
	does: "64 hosts with pages of 15 MiB, endless bodies and robots.txt, bombs of gzip, br and zstd",
	traps: map[string]trap{
		"large": {hosts: largeHosts, serve: func(x exchange) {
			x.rw.Header().Set("Content-Length", fmt.Sprint(largeBody))
			text := "<p>" + prose(x.name+x.r.URL.Path, 6000) + "</p>\n"
			for sent := 0; sent < largeBody; sent += len(text) {
				x.write(htmlType, text[:min(len(text), largeBody-sent)])
			}
		}},
		"endless": {serve: floods(ok("", ""), prose("endless", 6000))},
		// robots.txt, of which a part is read.
		"robotsendless": {robots: floods(ok("", defaultRobots), "Disallow: /ba/be/bi\n")},
		"robotsbomb":    {robots: func(x exchange) { x.bomb("gzip") }},
		"gzip":          {serve: func(x exchange) { x.bomb("gzip") }},
		"br":            {serve: func(x exchange) { x.bomb("br") }},
		"zstd":          {serve: func(x exchange) { x.bomb("zstd") }},
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
			most := int64(mostBytes)
			if strings.HasPrefix(h.Host, "robots") {
				most = mostRobotsBytes
			}
			if h.Bytes > most && !strings.HasPrefix(h.Host, "large") {
				j.blame("%s sent %d MiB, bound %d", h.Host, h.Bytes>>20, most>>20)
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
	mostBytes       = 64 << 20
	mostRobotsBytes = 8 << 20
)

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
// URL. What single answers lead to is in crawl/fetch: TestResponses, TestBrokenBodies,
// TestUnaskedAnswer, TestStaleConnection.
var http1Family = family{
	name:  "http1",
	does:  "floods of fields and 1xx, surplus answers, garbage",
	quick: true,
	traps: map[string]trap{
		// The client has received bytes that look like the answer to its next request.
		"short":      {serve: sends(ok("Content-Length: 10\r\n", chain+poison))},
		"both":       {serve: sends(ok(chainLength+"Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+poison))},
		"surplus":    {serve: sends(ok(chainLength, chain+poison+poison))},
		"nocontent":  {serve: sends("HTTP/1.1 204 No Content\r\nContent-Length: 100\r\n\r\n" + poison)},
		"unmodified": {serve: sends("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n" + poison)},
		"switch":     {serve: sends("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + poison)},
		// A map of fields takes a hundred times the bytes of fields of four letters and no value.
		"tiny":      {serve: sends("HTTP/1.1 200 OK\r\n" + strings.Join(numbered("%x:\n", 15_000), "") + chainLength + "\r\n" + chain)},
		"trailers":  {serve: sends(ok("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("X-T: a\r\n", 50_000)+"\r\n"))},
		"extension": {serve: floods(ok("Transfer-Encoding: chunked\r\n", "36;"), strings.Repeat("a", 64<<10))},
		"garbage":   {serve: floods("", strings.Repeat("\x00\xff\r\n", 1000))},
		"interim":   {serve: floods("", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000))},
		"fields":    {serve: floods("HTTP/1.1 200 OK\r\n", "X-Field: "+strings.Repeat("a", 1000)+"\r\n")},
		"line":      {serve: floods("HTTP/1.1 200 ", strings.Repeat("a", 64<<10))},
	},
	check: func(j *judge) {
		for name := range j.family.traps {
			if j.asked(name, "/poison") > 0 {
				j.blame("%s: a surplus answer was taken for that of a request", name)
			}
			j.expect(j.w.url(j.family.name, name, "/"))
		}
	},
}

// chain is a body that leads to the next pages, so that a connection is used again; poison is an
// answer that must never be read as one.
const (
	chain       = `<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>`
	chainLength = "Content-Length: 54\r\n"
	poison      = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\n\r\n<a href=\"/poison\">x</a>   \n"
)

func ok(fields, body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + fields + "\r\n" + body
}

// sends answers with bytes, and keeps the connection open for a while.
func sends(answer string) func(x exchange) {
	return func(x exchange) {
		c, _ := x.hijack()
		defer c.Close()
		_, _ = io.WriteString(c, answer)
		x.w.endVisit(c, false)
		x.w.hold(c, 500*time.Millisecond)
	}
}

// floods sends the beginning of an answer, then one piece again and again.
func floods(begin, piece string) func(x exchange) {
	return func(x exchange) {
		c, _ := x.hijack()
		defer c.Close()
		_, _ = io.WriteString(c, begin)
		x.w.flood(c, piece, 1<<30)
	}
}
