package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// siteCases are about what sites answer.
var siteCases = []scenario{
	{name: "bodies", words: "bodies that do not decode or do not end exactly", run: bodies},
	{name: "heads", words: "heads that browsers accept", run: heads},
}

// shape is a response and what is expected of it.
type shape struct {
	raw, link string
	archived  bool
	truncated string // value of WARC-Truncated
	links     any    // nil: either
}

// tryShapes crawls responses by name, each at /c/NAME, and compares. The body of the 404 for
// robots.txt does not decode either.
func (t *trial) tryShapes(shapes map[string]shape) {
	s := t.serve(func(r *http.Request, _ string) string {
		if name, ok := strings.CutPrefix(r.RequestURI, "/c/"); ok {
			return shapes[name].raw
		}
		if r.RequestURI == "/robots.txt" {
			return raw("404 Not Found", "plain", "Content-Encoding: gzip", "Content-Length: 5")
		}
		return page(r.RequestURI)
	})
	args := []string{"--retries", "0"}
	for name := range shapes {
		args = append(args, s.url("h1.web", "/c/"+name))
	}
	r := t.crawl("p", args...)
	t.want("exit status", r.code, 0)
	archived := t.responses("p")
	right := 0
	for name, sh := range shapes {
		rec, there := archived[s.url("h1.web", "/c/"+name)]
		truncated := ""
		if there {
			truncated = rec.Get("WARC-Truncated")
		}
		before := len(t.Wrong)
		if there != sh.archived {
			t.Blame("%s: archived %v, expected %v", name, there, sh.archived)
		}
		if there && truncated != sh.truncated {
			t.Blame("%s: WARC-Truncated %q, expected %q", name, truncated, sh.truncated)
		}
		if followed := s.count("", sh.link) > 0; sh.links != nil && followed != sh.links {
			t.Blame("%s: link followed %v, expected %v", name, followed, sh.links)
		}
		if len(t.Wrong) == before {
			right++
		}
	}
	t.Say("%d of %d responses archived, truncated and followed as expected", right, len(shapes))
}

func bodies(t *trial) {
	shapes := make(map[string]shape)
	add := func(name, truncated string, build func(body string) string) {
		link := "/t/" + name
		shapes[name] = shape{raw: build(html(name, link)), link: link, archived: true, truncated: truncated, links: true}
	}
	kind := "Content-Type: text/html"
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		add("lie-"+coding, "", func(b string) string { return response("200 OK", b, kind, "Content-Encoding: "+coding) })
	}
	gz := func(b string) string { return response("200 OK", b, kind, "Content-Encoding: gzip") }
	add("no-trailer", "", func(b string) string { z := packed(b); return gz(z[:len(z)-8]) })
	add("half-trailer", "", func(b string) string { z := packed(b); return gz(z[:len(z)-3]) })
	add("wrong-crc", "", func(b string) string { z := packed(b); return gz(z[:len(z)-8] + "\x01\x02\x03\x04" + z[len(z)-4:]) })
	add("behind", "", func(b string) string { return gz(packed(b) + "junk\n") })
	add("zeros-behind", "", func(b string) string { return gz(packed(b) + strings.Repeat("\x00", 64)) })
	add("cut-coding", "unspecified", func(b string) string {
		z := packed(b + strings.Repeat(fmt.Sprint(time.Now().UnixNano()), 40) + randomWords())
		return gz(z[:len(z)-100])
	})
	add("short", "disconnect", func(b string) string { return raw("200 OK", b, kind, fmt.Sprintf("Content-Length: %d", len(b)+40)) })
	add("no-last-chunk", "disconnect", func(b string) string {
		return raw("200 OK", fmt.Sprintf("%x\r\n%s\r\n", len(b), b), kind, "Transfer-Encoding: chunked")
	})
	add("cut-chunk", "disconnect", func(b string) string {
		return raw("200 OK", fmt.Sprintf("%x\r\n%s", len(b)+40, b), kind, "Transfer-Encoding: chunked")
	})
	t.tryShapes(shapes)
}

// packed is a text in gzip.
func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// randomWords is a text that packs badly.
func randomWords() string {
	var b strings.Builder
	for i := range uint64(400) {
		fmt.Fprintf(&b, "%x ", (i+1)*0x9e3779b97f4a7c15)
	}
	return b.String()
}

func heads(t *trial) {
	shapes := make(map[string]shape)
	add := func(name string, build func(body string) string) {
		link := "/t/" + name
		shapes[name] = shape{raw: build(html(name, link)), link: link, archived: true, links: true}
	}
	ordinary := func(status, b string, fields ...string) string {
		return response(status, b, append(fields, "Content-Type: text/html")...)
	}
	add("lengths", func(b string) string {
		return raw("200 OK", b, "Content-Type: text/html", fmt.Sprintf("Content-Length: %d, %d", len(b), len(b)))
	})
	add("two-lengths", func(b string) string { return ordinary("200 OK", b, fmt.Sprintf("Content-Length: %d", len(b))) })
	add("chunked-twice", func(b string) string {
		return raw("200 OK", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(b), b), "Content-Type: text/html", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")
	})
	add("empty-line", func(b string) string { return "\r\n" + ordinary("200 OK", b) })
	add("http-2", func(b string) string { return strings.Replace(ordinary("200 OK", b), "HTTP/1.1", "HTTP/2", 1) })
	add("lower-case", func(b string) string { return strings.Replace(ordinary("200 OK", b), "HTTP/1.1", "http/1.1", 1) })
	add("no-reason", func(b string) string { return ordinary("200", b) })
	add("bare-lf", func(b string) string {
		head, body, _ := strings.Cut(ordinary("200 OK", b), "\r\n\r\n")
		return strings.ReplaceAll(head, "\r\n", "\n") + "\n\n" + body
	})
	t.tryShapes(shapes)
}
