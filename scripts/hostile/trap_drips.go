package main

import (
	"io"
	"net/http"
	"time"
)

// Drips.
//
// The trap: heads and bodies of a byte a second; hosts that take a request and never answer; that
// begin to answer and stop; a robots.txt that drips; more such hosts than the crawler has fetchers.
//
// A good crawler gives each phase its time and a body a least speed, tries again once or twice
// later, and has fetchers left for the others.
var dripsFamily = family{
	name: "drips",
	does: "heads, bodies and robots.txt of a byte a second, no answer at all, answers that stop; 48 such hosts",
	seeds: func(w *world) []string {
		urls := w.urls("drips", append(numbered("silent%d", silentHosts), "head", "body", "stall", "robots", "chunk", "never", "tail")...)
		return append(urls, w.secures("drips", "head", "body2", "never2")...)
	},
	serve:     serveDrips,
	ownRobots: true,
	within:    4 * time.Minute,
}

const silentHosts = 48

// dripsFor is longer than anyone should wait.
const dripsFor = 3 * time.Minute

func serveDrips(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Path == "/robots.txt" && name != "robots" && name != "never" {
		_, _ = io.WriteString(rw, defaultRobots)
		return
	}
	if r.ProtoMajor == 2 {
		if name == "body2" {
			w.dripStream(rw)
			return
		}
		select { // no answer at all
		case <-r.Context().Done():
		case <-w.ctx.Done():
		case <-time.After(dripsFor):
		}
		return
	}
	c, _ := hijack(rw)
	defer c.Close()
	write := func(s string) { _, _ = io.WriteString(c, s) }
	switch name {
	case "head", "robots":
		write("HTTP/1.1 200 OK\r\nX-Drip: ")
		w.drip(c, "a", time.Second, dripsFor)
	case "body":
		write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")
		w.drip(c, "a", time.Second, dripsFor)
	case "chunk":
		write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
		w.drip(c, "1\r\na\r\n", time.Second, dripsFor)
	case "tail": // all but the end of a chunked body
		write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
		w.drip(c, "X-T: a\r\n", time.Second, dripsFor)
	case "stall":
		write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n" + prose("stall", 500))
		w.hold(c, dripsFor)
	default:
		w.hold(c, dripsFor)
	}
}

// dripStream drips within a stream of HTTP/2.
func (w *world) dripStream(rw http.ResponseWriter) {
	end := time.Now().Add(dripsFor)
	for time.Now().Before(end) {
		if _, err := io.WriteString(rw, "a"); err != nil || !w.sleep(time.Second) {
			return
		}
		if err := http.NewResponseController(rw).Flush(); err != nil {
			return
		}
	}
}
