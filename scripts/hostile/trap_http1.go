package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lies in HTTP/1.
//
// The trap: lengths that are too short or too long, given twice or beside chunks; floods of interim
// answers and of fields, of three bytes each too; heads without an end; status lines that are none;
// answers that nobody asked for, behind the true one or while the connection rests; connections
// that end early, by a reset, or at the next use.
//
// A good crawler never takes bytes for the answer to another request than its own (here: never asks
// for /poison), bounds heads and interim answers, and comes to an outcome for each URL.
var http1Family = family{
	name:  "http1",
	does:  "wrong lengths, floods of fields and 1xx, garbage, surplus and unasked answers, early ends, resets",
	quick: true,
	seeds: func(w *world) []string { return w.urls("http1", http1Names()...) },
	serve: serveHTTP1,
	check: func(j *judge) {
		for _, name := range http1Names() {
			if j.asked(name, "/poison") > 0 {
				j.blame("http1: %s: an answer that was not asked for was believed", name)
			}
			if j.outcome(j.w.url(j.family.name, name, "/")) == "" {
				j.blame("http1: %s: no outcome on record", name)
			}
		}
	},
}

// unasked waits a moment, shorter than a peer's delay, and says whether no question has come on the
// connection, nor can be on its way: on a busy machine the moment may be longer.
func unasked(c net.Conn, r *bufio.Reader) bool {
	begun := time.Now()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	_, err := r.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && time.Since(begun) < trialDelay/2
}

func http1Names() []string {
	return append(slices.Sorted(maps.Keys(http1Answers)), "idle", "reuse", "interim", "flood", "fields", "endless-line")
}

// poison is an answer that must never be read as one.
const poison = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\n\r\n<a href=\"/poison\">x</a>   \n"

func ok(fields, body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + fields + "\r\n" + body
}

// chain is a body that leads to the next pages, so that a connection is used again.
const chain = `<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>`

// http1Answers are whole answers; where a connection stays open the client has what it believes is
// the next answer already.
var http1Answers = map[string]string{
	"short":      ok("Content-Length: 10\r\n", chain+poison),
	"long":       ok("Content-Length: 100000\r\n", chain),
	"huge":       ok("Content-Length: 9223372036854775807\r\n", chain),
	"overflow":   ok("Content-Length: 18446744073709551617\r\n", chain),
	"negative":   ok("Content-Length: -1\r\n", chain),
	"signed":     ok("Content-Length: +54\r\n", chain),
	"list":       ok("Content-Length: 54, 54\r\n", chain),
	"differ":     ok("Content-Length: 54\r\nContent-Length: 5\r\n", chain),
	"both":       ok(fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(chain)), "0\r\n\r\n"+poison),
	"chunks":     ok("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+chain),
	"badchunk":   ok("Transfer-Encoding: chunked\r\n", "zz\r\n"+chain),
	"extension":  ok("Transfer-Encoding: chunked\r\n", "36;"+strings.Repeat("a", 100_000)+"\r\n"+chain+"\r\n0\r\n\r\n"),
	"trailers":   ok("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("X-T: a\r\n", 50_000)+"\r\n"),
	"tiny":       "HTTP/1.1 200 OK\r\n" + tinyFields(15_000) + "Content-Length: 54\r\n\r\n" + chain,
	"codings":    ok("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
	"surplus":    ok(fmt.Sprintf("Content-Length: %d\r\n", len(chain)), chain+poison+poison),
	"nocontent":  "HTTP/1.1 204 No Content\r\nContent-Length: 100\r\n\r\n" + poison,
	"unmodified": "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n" + poison,
	"switch":     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + poison,
	"nine":       "<html>" + chain,
	"garbage":    strings.Repeat("\x00\xff\r\n", 1000),
	"status":     "HTTP/1.1 999999 Oh\r\n\r\n",
	"zero":       "HTTP/1.1 000 \r\n\r\n",
	"six":        "HTTP/1.1 600 Six\r\nContent-Length: 0\r\n\r\n",
	"version":    "HTTP/7.3 200 OK\r\nContent-Length: 0\r\n\r\n",
	"icy":        "ICY 200 OK\r\n\r\n" + chain,
	"barelf":     "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 54\n\n" + chain,
	"barecr":     "HTTP/1.1 200 OK\rContent-Length: 54\r\r" + chain,
	"folded":     ok("X-A: b\r\n c\r\n\td\r\nContent-Length:\r\n 54\r\n", chain),
	"spaces":     ok("Content-Length : 5\r\n", chain),
	"nulls":      ok("X-\x00: \x00\x01\x02\r\nContent-Length: 54\r\n", chain),
	"reason":     "HTTP/1.1 200 " + strings.Repeat("very ", 5000) + "OK\r\nContent-Length: 54\r\n\r\n" + chain,
	"noend":      "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
	"empty":      "",
	"halfline":   "HTTP/1.",
	"coding":     ok("Content-Encoding: gzip\r\nContent-Length: 54\r\n", chain),
	"unknown":    ok("Content-Encoding: quantum\r\nContent-Length: 54\r\n", chain),
	"types":      ok("Content-Type: text/html\r\nContent-Type: image/png\r\nContent-Length: 54\r\n", chain),
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

func serveHTTP1(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	c, buf := hijack(rw)
	defer c.Close()
	write := func(s string) bool { _, err := io.WriteString(c, s); return err == nil }
	page := ok(fmt.Sprintf("Content-Length: %d\r\n", len(chain)), chain)
	switch name {
	case "idle": // an answer that nobody asked for, on a connection that rests
		if write(page) {
			w.answered(c)
			if unasked(c, buf.Reader) { // else it would be the answer to a question
				write(poison)
			}
			w.hold(c, 5*time.Second)
		}
	case "reuse": // the connection ends when it is used again
		write(page)
		w.answered(c)
		w.serveRaw(c, buf.Reader, func(*http.Request) bool {
			if k := unwrap(c); k != nil {
				k.reset()
			}
			return false
		})
	case "interim":
		for range 5000 {
			if !write("HTTP/1.1 100 Continue\r\n\r\n") {
				return
			}
		}
		write(page)
	case "flood":
		w.drip(c, "HTTP/1.1 103 Early Hints\r\nLink: </poison>; rel=preload\r\n\r\n", time.Millisecond, 5*time.Second)
	case "fields":
		write("HTTP/1.1 200 OK\r\n")
		w.flood(c, "X-Field: "+strings.Repeat("a", 1000)+"\r\n", 64<<20)
	case "endless-line":
		write("HTTP/1.1 200 ")
		w.flood(c, strings.Repeat("a", 64<<10), 64<<20)
	case "huge", "long":
		write(http1Answers[name])
		w.hold(c, 3*time.Second)
	default:
		write(http1Answers[name])
		w.answered(c)
		w.hold(c, 500*time.Millisecond)
	}
}

// flood writes as fast as the client reads, up to a bound.
func (w *world) flood(c net.Conn, piece string, most int) {
	for sent := 0; sent < most && w.ctx.Err() == nil; sent += len(piece) {
		if _, err := io.WriteString(c, piece); err != nil {
			w.gone(c)
			return
		}
	}
}
