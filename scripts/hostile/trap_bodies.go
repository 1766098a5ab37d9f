package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Large bodies.
//
// The trap: 64 hosts with a page of nearly 16 MiB each; bodies that never end, with and without
// chunks; bodies of some kilobytes that unpack to gigabytes, by gzip, Brotli and Zstandard; codings
// within codings.
//
// A good crawler counts what it takes before it has it, so that its memory stays where it was told
// to stay; fetches all pages that keep the bound; breaks off at the bound what does not, unpacked
// or not.
var bodiesFamily = family{
	name: "bodies",
	does: "64 hosts with pages of 15 MiB, endless bodies, bombs of gzip, br and zstd",
	seeds: func(w *world) []string {
		return w.urls("bodies", append(numbered("large%d", largeHosts), "endless", "chunked", "gzip", "br", "zstd", "twice", "stack", "truncated", "liar")...)
	},
	serve:  serveBodies,
	within: 4 * 60e9,
	check:  checkBodies,
}

const (
	largeHosts = 64
	largeBody  = 15 << 20
	bombSize   = 512 << 20
	// mostBytes is what a host may bring whose body has no end: the bound of a body for each try,
	// and what the kernel takes.
	mostBytes = 64 << 20
)

func serveBodies(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	rw.Header().Set("Content-Type", "text/html")
	text := "<p>" + prose(name+r.URL.Path, 6000) + "</p>\n"
	coded := func(coding string, body []byte) {
		rw.Header().Set("Content-Encoding", coding)
		_, _ = rw.Write(body)
	}
	switch name {
	case "endless":
		c, buf := hijack(rw)
		defer c.Close()
		_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		for buf.Flush() == nil && w.ctx.Err() == nil {
			_, _ = buf.WriteString(text)
		}
	case "chunked", "liar":
		for w.ctx.Err() == nil {
			if _, err := io.WriteString(rw, text); err != nil {
				return
			}
		}
	case "gzip", "br", "zstd":
		coded(name, bomb(name))
	case "twice":
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(bomb("gzip"))
		_ = z.Close()
		coded("gzip, gzip", out.Bytes())
	case "stack":
		coded(strings.TrimSuffix(strings.Repeat("gzip, ", 50), ", "), bomb("gzip"))
	case "truncated":
		coded("gzip", bomb("gzip")[:1000])
	default:
		rw.Header().Set("Content-Length", fmt.Sprint(largeBody))
		for sent := 0; sent < largeBody; sent += len(text) {
			if _, err := io.WriteString(rw, text[:min(len(text), largeBody-sent)]); err != nil {
				return
			}
		}
	}
}

var (
	bombMu sync.Mutex
	bombs  = make(map[string][]byte)
)

// bomb is bombSize of nothing, packed; made once.
func bomb(coding string) []byte {
	bombMu.Lock()
	defer bombMu.Unlock()
	if b := bombs[coding]; b != nil {
		return b
	}
	var out bytes.Buffer
	var z io.WriteCloser
	switch coding {
	case "br":
		z = brotli.NewWriterLevel(&out, 4)
	case "zstd":
		z, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		z, _ = gzip.NewWriterLevel(&out, gzip.BestSpeed)
	}
	nothing := bytes.Repeat([]byte{' '}, 1<<20)
	for range bombSize >> 20 {
		_, _ = z.Write(nothing)
	}
	_ = z.Close()
	bombs[coding] = out.Bytes()
	return bombs[coding]
}

func checkBodies(j *judge) {
	lost := 0
	for _, url := range j.w.urls(j.family.name, numbered("large%d", largeHosts)...) {
		if j.outcome(url) != "ok" {
			lost++
		}
	}
	if lost > 0 {
		j.blame("bodies: %d of %d pages of %d MiB were not fetched", lost, largeHosts, largeBody>>20)
	}
	for _, h := range j.hosts {
		if h.Bytes > mostBytes && !strings.HasPrefix(h.Host, "large") {
			j.blame("bodies: %s sent %d MiB, bound %d", h.Host, h.Bytes>>20, mostBytes>>20)
		}
	}
}
