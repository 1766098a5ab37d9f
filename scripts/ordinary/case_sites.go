package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"time"
)

// siteCases are about what sites answer.
var siteCases = []scenario{
	{name: "robots-4xx", words: "robots.txt answers 4xx with a broken body", run: robots4xx},
	{name: "robots-cut", words: "robots.txt answers 200 and breaks off", run: robotsCut},
	{name: "bodies", words: "bodies that do not decode or do not end exactly", run: bodies},
	{name: "heads", words: "heads that browsers accept", run: heads},
	{name: "responses", words: "the raw responses of responses.json", run: sharedResponses},
	{name: "h2-only", words: "a server of HTTP/2 only, without ALPN", run: h2Only},
	{name: "cookies", words: "walls of cookies, and --cookies off", run: cookies},
	{name: "redirects", words: "20 redirects, and 21", run: redirects},
	{name: "latin1", words: "a Location in Latin-1", run: latin1},
	{name: "noindex", words: "noindex, and --archive-noindex", run: noindex},
	{name: "requisites", words: "--requisites: CSS, fonts, other hosts", run: requisites},
	{name: "addresses", words: "a name with many addresses of which one answers; a silent AAAA", run: addresses},
	{name: "link-headers", words: "pages with hundreds of Link headers", run: linkHeaders},
	{name: "host-bytes", words: "endless distinct bodies meet --max-bytes-per-host", run: hostBytes},
	{name: "proxy-env", words: "HTTP_PROXY is set", run: proxyEnv},
}

func robots4xx(t *trial) error {
	shapes := map[string]string{
		"gzip":    raw("404 Not Found", "plain", "Content-Encoding: gzip", "Content-Length: 5"),
		"br":      raw("404 Not Found", "plain", "Content-Encoding: br", "Content-Length: 5"),
		"zstd":    raw("403 Forbidden", "plain", "Content-Encoding: zstd", "Content-Length: 5"),
		"deflate": raw("404 Not Found", "plain", "Content-Encoding: deflate", "Content-Length: 5"),
		"short":   raw("410 Gone", "short", "Content-Length: 50"),
		"chunks":  raw("404 Not Found", "zz\r\nbad\r\n", "Transfer-Encoding: chunked"),
		"nolast":  raw("401 Unauthorized", "3\r\nbad\r\n", "Transfer-Encoding: chunked"),
		"trailer": raw("404 Not Found", packed("words")[:12], "Content-Encoding: gzip", "Content-Length: 12"),
	}
	s, err := t.serve(func(r *http.Request, host string) string {
		if r.RequestURI == "/robots.txt" {
			return shapes[strings.TrimSuffix(host, ".web.localhost")]
		}
		return page(host)
	})
	if err != nil {
		return err
	}
	var seeds []string
	for name := range shapes {
		seeds = append(seeds, s.url(name+".web", "/"))
	}
	r, err := t.crawl("p", seeds...)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), len(shapes))
	for name := range shapes {
		if s.count(name+".web", "/") != 1 {
			t.Blame("%s: not asked", name)
		}
	}
	return nil
}

func robotsCut(t *trial) error {
	rules := "User-agent: *\nDisallow: /private\n"
	shapes := map[string]string{
		"length": raw("200 OK", rules+"Disallow: /hal", "Content-Type: text/plain", "Content-Length: 500"),
		"chunks": raw("200 OK", fmt.Sprintf("%x\r\n%s\r\n", len(rules), rules), "Content-Type: text/plain", "Transfer-Encoding: chunked"),
		"empty":  raw("200 OK", "User-ag", "Content-Type: text/plain", "Content-Length: 500"),
	}
	s, err := t.serve(func(r *http.Request, host string) string {
		if r.RequestURI == "/robots.txt" {
			return shapes[strings.TrimSuffix(host, ".web.localhost")]
		}
		return page(host+r.RequestURI, "/private", "/half")
	})
	if err != nil {
		return err
	}
	r, err := t.crawl("p", "--patience", "2s", s.url("length.web", "/"), s.url("chunks.web", "/"), s.url("empty.web", "/"))
	if err != nil {
		return err
	}
	for _, name := range []string{"length.web", "chunks.web"} {
		t.want(name+": / asked", s.count(name, "/"), 1)
		t.want("/private", s.count(name, "/private"), 0)
		t.want("/half", s.count(name, "/half"), 1)
		t.want("/robots.txt", s.count(name, "/robots.txt"), 3)
	}
	t.want("no whole line: / asked", s.count("empty.web", "/"), 0)
	t.has("output", r.text(), "robots.txt")
	return nil
}

// shape is a response and what is expected of it.
type shape struct {
	raw, link string
	archived  bool
	truncated string // value of WARC-Truncated
	links     any    // nil: either
}

// tryShapes crawls responses by name, each at /c/NAME, and compares.
func (t *trial) tryShapes(shapes map[string]shape) error {
	s, err := t.serve(func(r *http.Request, _ string) string {
		if name, ok := strings.CutPrefix(r.RequestURI, "/c/"); ok {
			return shapes[name].raw
		}
		if r.RequestURI == "/robots.txt" {
			return ""
		}
		return page(r.RequestURI)
	})
	if err != nil {
		return err
	}
	args := []string{"--retries", "0"}
	for name := range shapes {
		args = append(args, s.url("h1.web", "/c/"+name))
	}
	r, err := t.crawl("p", args...)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	archived, err := t.responses("p")
	if err != nil {
		return err
	}
	right := 0
	for name, sh := range shapes {
		rec, there := archived[s.url("h1.web", "/c/"+name)]
		before := len(t.Wrong)
		if there != sh.archived {
			t.Blame("%s: archived %v, expected %v", name, there, sh.archived)
		}
		if got := rec.Get("WARC-Truncated"); there && got != sh.truncated {
			t.Blame("%s: WARC-Truncated %q, expected %q", name, got, sh.truncated)
		}
		if followed := s.count("", sh.link) > 0; sh.links != nil && followed != sh.links {
			t.Blame("%s: link followed %v, expected %v", name, followed, sh.links)
		}
		if len(t.Wrong) == before {
			right++
		}
	}
	t.Say("%d of %d responses archived, truncated and followed as expected", right, len(shapes))
	return nil
}

func bodies(t *trial) error {
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
	return t.tryShapes(shapes)
}

// randomWords is a text that packs badly.
func randomWords() string {
	var b strings.Builder
	for i := range uint64(400) {
		fmt.Fprintf(&b, "%x ", (i+1)*0x9e3779b97f4a7c15)
	}
	return b.String()
}

func heads(t *trial) error {
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
	return t.tryShapes(shapes)
}

func sharedResponses(t *trial) error {
	text, err := os.ReadFile(t.data)
	if errors.Is(err, fs.ErrNotExist) {
		t.skip("responses.json is not here (--responses FILE)")
		return nil
	} else if err != nil {
		return err
	}
	var file struct {
		Cases []struct {
			Name   string `json:"name"`
			Raw    []byte `json:"raw_b64"`
			Link   string `json:"link"`
			Expect struct {
				Archived  bool    `json:"archived"`
				Truncated *string `json:"truncated"`
				Links     any     `json:"links"`
			} `json:"expect"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	shapes := make(map[string]shape)
	for _, c := range file.Cases {
		sh := shape{raw: string(c.Raw), link: c.Link, archived: c.Expect.Archived, links: c.Expect.Links}
		if c.Expect.Truncated != nil {
			sh.truncated = *c.Expect.Truncated
		}
		shapes[c.Name] = sh
	}
	return t.tryShapes(shapes)
}

func h2Only(t *trial) error {
	a, err := t.authority()
	if err != nil {
		return err
	}
	for _, kind := range []string{"settings", "preface"} {
		s, err := t.serve(nil, a)
		if err != nil {
			return err
		}
		s.http2 = kind
		cmd := t.command(t, t.crawlArgs(kind, strings.Replace(s.url("site", "/"), "http:", "https:", 1), "--retries", "0")...)
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+t.at("ca.pem"))
		r, err := finish(cmd)
		if err != nil {
			return err
		}
		t.want(kind+": exit status", r.code, 0)
		t.want("pages asked", s.count("site", "/")+s.count("site", "/next"), 2)
	}
	return nil
}

func cookies(t *trial) error {
	var s *site
	wall := "Set-Cookie: wall=1; Path=/"
	answer := func(r *http.Request, host string) string {
		_, err := r.Cookie("wall")
		switch host = strings.TrimSuffix(host, ".localhost"); {
		case r.RequestURI == "/robots.txt":
			return ""
		case host == "self" && err != nil: // to itself
			return redirect(r.RequestURI, wall)
		case host == "consent": // a foreign host that leads back
			return redirect(r.URL.Query().Get("back"), "Set-Cookie: consent=1; Path=/")
		case host == "before" && err != nil: // the cookie is set on the way there
			return redirect(s.url("consent", "/?back="+url.QueryEscape(s.url("before", "/"))), wall)
		case host == "after" && r.RequestURI == "/" && err != nil: // the cookie is set on the way back
			return redirect(s.url("consent", "/?back="+url.QueryEscape(s.url("after", "/?ok=1"))))
		case host == "after" && err != nil:
			return redirect(s.url("after", "/"), wall)
		}
		return page(host+r.RequestURI, "/next")
	}
	s, err := t.serve(answer)
	if err != nil {
		return err
	}
	r, err := t.crawl("on", s.url("self", "/"), s.url("before", "/"), s.url("after", "/"))
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	archived, err := t.responses("on")
	if err != nil {
		return err
	}
	for _, host := range []string{"self", "before", "after"} {
		rec := archived[s.url(host, "/")]
		t.holds(strings.Contains(rec.block, "words of") || s.count(host, "/next") > 0, host+": content", s.count(host, "/next") > 0, "fetched, link followed")
	}
	before := s.total()
	if r, err = t.crawl("off", "--cookies", "off", s.url("self", "/")); err != nil {
		return err
	}
	t.want("--cookies off: pages in the last line", number(r.out, "pages"), 0)
	t.holds(s.total()-before <= 2, "requests", s.total()-before, "at most 2")
	return nil
}

func redirects(t *trial) error {
	s, err := t.serve(func(r *http.Request, _ string) string {
		var left int
		if n, _ := fmt.Sscanf(r.RequestURI, "/hop/%d", &left); n != 1 {
			return ""
		}
		if left == 0 {
			return page("end of " + r.Host)
		}
		return redirect(fmt.Sprintf("/hop/%d", left-1))
	})
	if err != nil {
		return err
	}
	r, err := t.crawl("p", s.url("h20.web", "/hop/20"), s.url("h21.web", "/hop/21"), s.url("h50.web", "/hop/50"))
	if err != nil {
		return err
	}
	t.want("end of 20 asked", s.count("h20.web", "/hop/0"), 1)
	t.want("end of 21", s.count("h21.web", "/hop/0"), 0)
	t.want("errors in the last line", number(r.out, "errors"), 2)
	got, err := t.urls("p")
	count := 0
	for _, u := range got {
		if u.Outcome == "too_many_redirects" {
			count++
		}
	}
	t.want("outcomes too_many_redirects", count, 2)
	return err
}

func latin1(t *trial) error {
	s, err := t.pages(map[string]string{"/": redirect("/caf\xe9?q=\xfc"), "/caf%E9?q=%FC": page("latin")})
	if err != nil {
		return err
	}
	r, err := t.crawl("p", s.url("h1.web", "/"))
	if err != nil {
		return err
	}
	t.want("/caf%E9?q=%FC asked", s.count("", "/caf%E9?q=%FC"), 1)
	t.want("pages in the last line", number(r.out, "pages?"), 1)
	return nil
}

func noindex(t *trial) error {
	meta := `<html><head><meta name="robots" content="noindex"></head><body>meta <a href="/next">n</a></body></html>`
	s, err := t.pages(map[string]string{
		"/": response("200 OK", meta, "Content-Type: text/html"), "/next": response("200 OK", html("next"), "Content-Type: text/html", "X-Robots-Tag: noindex"),
	})
	if err != nil {
		return err
	}
	r, err := t.crawl("p", s.url("h1.web", "/"))
	if err != nil {
		return err
	}
	t.has("output", r.text(), "2 pages not archived because of noindex", "--archive-noindex")
	kept, err := t.responses("p")
	if err != nil {
		return err
	}
	t.want("pages archived", archivedOf(kept, s), 0)
	if _, err = t.crawl("q", "--archive-noindex", s.url("h1.web", "/")); err != nil {
		return err
	}
	kept, err = t.responses("q")
	t.want("with --archive-noindex", archivedOf(kept, s), 2)
	return err
}

// archivedOf counts the records of pages of a site.
func archivedOf(kept map[string]record, s *site) int {
	n := 0
	for u := range kept {
		if p, err := url.Parse(u); err == nil && p.Port() == fmt.Sprint(s.port) && p.Path != "/robots.txt" {
			n++
		}
	}
	return n
}

func requisites(t *trial) error {
	by := make(map[string]string)
	s, err := t.serve(func(r *http.Request, host string) string {
		return by[strings.TrimSuffix(host, ".web.localhost")+r.RequestURI]
	})
	if err != nil {
		return err
	}
	css := func(text string) string { return response("200 OK", text, "Content-Type: text/css") }
	by["h1/"] = response("200 OK", `<html><head><link rel="stylesheet" href="/a.css"><style>body{background:url('/inline.png')}</style></head><body style="background:url(/attr.png)">
<img srcset="/small.png 1x, /large.png 2x" src="/src.png"><a href="`+s.url("h3.web", "/page")+`">away</a><img src="`+s.url("h2.web", "/far.png")+`"></body></html>`, "Content-Type: text/html")
	by["h1/a.css"] = css(`@import url("` + s.url("h2.web", "/b.css") + `"); @font-face { font-family: x; src: url(/font.woff2) } p { background: url(/css.png) }`)
	by["h2/b.css"] = css(`p { background: url(deep.png) } /* url(/not.png) */`)
	for _, p := range []string{"h1/inline.png", "h1/attr.png", "h1/small.png", "h1/large.png", "h1/src.png", "h1/css.png", "h1/font.woff2", "h2/far.png", "h2/deep.png"} {
		by[p] = response("200 OK", p, "Content-Type: image/png")
	}
	by["h3/page"] = page("away")
	r, err := t.crawl("p", "--requisites", s.url("h1.web", "/"))
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	var missing []string
	for p := range by {
		host, path, _ := strings.Cut(p, "/")
		if host != "h3" && s.count(host+".web", "/"+path) != 1 {
			missing = append(missing, p)
		}
	}
	sort.Strings(missing)
	t.want(fmt.Sprintf("requisites not asked, of %d", len(by)-2), missing, "[]")
	t.want("page of another host asked", s.count("h3.web", "/page"), 0)
	t.want("URL in a comment asked", s.count("", "/not.png"), 0)
	return nil
}

func addresses(t *trial) error {
	names, err := t.serveDNS("127.0.0.1:0", func(string) []string {
		return []string{"127.3.0.1", "127.3.0.2", "127.3.0.3", "127.3.0.4", "127.3.0.5", "127.3.0.6", "127.3.0.7", "127.0.0.1"}
	}, true)
	if err != nil {
		return err
	}
	s, err := t.pages(map[string]string{"/": page("front")})
	if err != nil {
		return err
	}
	begin := time.Now()
	r, err := t.crawl("p", "--dns-server", names, fmt.Sprintf("http://many.example.test:%d/", s.port))
	if err != nil {
		return err
	}
	t.want("pages in the last line", number(r.out, "pages?"), 1)
	took := time.Since(begin)
	t.holds(took < 5*time.Second, "time", took.Round(100*time.Millisecond), "under 5s")
	return nil
}

func linkHeaders(t *trial) error {
	const pages = 150
	links := make([]string, 400)
	s, err := t.serve(func(r *http.Request, host string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 || i >= pages {
			return ""
		}
		fields := []string{"Content-Type: text/html"}
		if strings.HasPrefix(host, "with.") {
			for j := range links {
				fields = append(fields, fmt.Sprintf("Link: </p/%d>; rel=next", (i+j)%pages))
			}
		}
		return response("200 OK", html(fmt.Sprint(host, i), fmt.Sprintf("/p/%d", i+1)), fields...)
	})
	if err != nil {
		return err
	}
	took := make(map[string]float64)
	for _, host := range []string{"without", "with"} {
		begin := time.Now()
		r, err := t.crawl(host, s.url(host+".web", "/p/0"))
		if err != nil {
			return err
		}
		took[host] = time.Since(begin).Seconds()
		t.want("pages "+host+" them", number(r.out, "pages"), pages)
	}
	ratio := took["with"] / took["without"]
	t.holds(ratio < 4, "time with them", fmt.Sprintf("%.1f times that without, %.0f pages/s", ratio, pages/took["with"]), "less than 4 times")
	return nil
}

func hostBytes(t *trial) error {
	body := strings.Repeat("0123456789abcdef", 1<<15) // half a MiB, twice in a page
	s, err := t.serve(func(r *http.Request, _ string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 {
			return ""
		}
		return page(fmt.Sprint(i, body), fmt.Sprintf("/p/%d", i+1))
	})
	if err != nil {
		return err
	}
	r, err := t.crawl("p", "--max-bytes-per-host", "10MiB", s.url("h1.web", "/p/0"))
	if err != nil {
		return err
	}
	t.holds(s.total() >= 10 && s.total() <= 13, "pages of 1 MiB asked", s.total(), "10 to 13")
	t.has("output", r.text(), "--max-bytes-per-host")
	help, err := t.apoidea("run", "--help")
	if err != nil {
		return err
	}
	t.has("its default in run --help", help.out, "2GiB or a tenth of the free disk")
	return nil
}

func proxyEnv(t *trial) error {
	s, err := t.pages(map[string]string{"/": page("front")})
	if err != nil {
		return err
	}
	for _, name := range []string{"HTTP_PROXY", "https_proxy"} {
		cmd := t.command(t, t.crawlArgs(name, s.url("h1.web", "/"))...)
		cmd.Env = append(cmd.Env, name+"=http://127.0.0.1:9")
		r, err := finish(cmd)
		if err != nil {
			return err
		}
		t.has("output", r.log, name, "--proxy")
		t.want("pages in the last line", number(r.out, "pages?"), 1)
	}
	return nil
}
