package webgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Paths of the audit; they are valid for every Host, and are not audited.
const (
	AuditPath      = "/_audit"       // GET: an [Audit] as JSON
	AuditURLsPath  = "/_audit/urls"  // GET: one [AuditURL] a line
	AuditResetPath = "/_audit/reset" // POST: reset the audit; flaky pages fail again
)

// Handler returns a handler of the audit and of the web, by the Host header.
func (w *Web) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+AuditPath, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(rw)
		enc.SetIndent("", "  ")
		_ = enc.Encode(w.Audit()) // an error means that the client disconnected
	})
	mux.HandleFunc("GET "+AuditURLsPath, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/x-ndjson")
		enc := json.NewEncoder(rw)
		for u := range w.AuditURLs() {
			if enc.Encode(u) != nil {
				return
			}
		}
	})
	mux.HandleFunc("POST "+AuditResetPath, func(rw http.ResponseWriter, _ *http.Request) {
		w.ResetAudit()
		rw.WriteHeader(http.StatusNoContent)
	})
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, AuditPath) {
			mux.ServeHTTP(rw, req)
			return
		}
		w.serve(rw, req)
	})
}

// response is the response to a request.
type response struct {
	status      int
	contentType string
	header      []string // further names and values, alternating
	body        []byte
	wait        time.Duration

	habit   string  // of a page that changes, with the following
	version int     // number of its changes
	unix    float64 // time in the file of changes
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

func (w *Web) serve(rw http.ResponseWriter, req *http.Request) {
	host, port, ok := w.parseHost(req.Host)
	if !ok {
		w.audit.unknownHost.Add(1)
		http.Error(rw, "no such host in this web", http.StatusMisdirectedRequest)
		return
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		http.Error(rw, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)

	asked := w.ask(host, req)
	visit := w.audit.host(host).begin(asked, sourceOf(req.RemoteAddr), asked.at)
	resp := w.respond((*buf)[:0], asked, visit.earlier, port)
	*buf = resp.body[:0]
	visit.status = resp.status
	if resp.wait > 0 {
		select {
		case <-time.After(resp.wait):
		case <-req.Context().Done():
			visit.end(time.Now())
			return
		}
	}
	write(rw, req, resp, &visit)
	w.logged(req, &asked, &resp)
}

// lastBytes of a body are held back until the audit has ended the visit: so no client can receive a
// whole response, and begin another request because of it, before that.
const lastBytes = 64

func write(rw http.ResponseWriter, req *http.Request, resp response, visit *visit) {
	h := rw.Header()
	if resp.contentType != "" {
		h.Set("Content-Type", resp.contentType)
	}
	for i := 0; i < len(resp.header); i += 2 {
		h.Set(resp.header[i], resp.header[i+1])
	}
	if resp.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(resp.body)))
	}
	rest := resp.body
	if req.Method == http.MethodGet && len(rest) > lastBytes {
		rw.WriteHeader(resp.status)
		_, _ = rw.Write(rest[:len(rest)-lastBytes]) // an error means that the client disconnected
		rest = rest[len(rest)-lastBytes:]
		visit.end(time.Now())
	} else {
		visit.end(time.Now())
		rw.WriteHeader(resp.status)
	}
	_, _ = rw.Write(rest)
}

// resource is the kind of a path.
type resource uint8

const (
	resourcePage resource = iota
	resourceRobots
	resourceSitemapIndex
	resourceSitemap
	resourceTrap
	resourceNone
)

// request is a request in the terms of this web.
type request struct {
	host     int
	resource resource
	number   int // of the page, the part of the sitemap, the page of the trap
	url      string
	probe    bool // HEAD
	allowed  bool // by robots.txt
	kind     kind
	failures int // number of initial failures of the URL

	at    time.Time // at which it began
	etag  string    // If-None-Match
	since time.Time // If-Modified-Since
}

func (w *Web) ask(host int, req *http.Request) request {
	r := request{host: host, url: req.URL.RequestURI(), probe: req.Method == http.MethodHead, allowed: true, resource: resourceNone, at: time.Now()}
	r.etag = strings.TrimPrefix(req.Header.Get("If-None-Match"), "W/")
	r.since, _ = http.ParseTime(req.Header.Get("If-Modified-Since"))
	if i := strings.IndexByte(r.url, '?'); i >= 0 {
		return r // no page has a query
	}
	switch {
	case r.url == "/robots.txt":
		r.resource = resourceRobots
	case r.url == "/sitemap.xml":
		r.resource = resourceSitemapIndex
	default:
		var ok bool
		if r.number, ok = w.parsePath(host, r.url); ok {
			r.resource = resourcePage
			r.kind = w.kindOf(place{host, r.number})
			r.allowed = w.rulesOf(host).allows(r.number)
			if r.kind == flaky {
				r.failures = w.cfg.FlakyFailures
			}
		} else if r.number, ok = between(r.url, "/sitemap-", ".xml", w.sitemapParts(host)); ok {
			r.resource = resourceSitemap
		} else if r.number, ok = between(r.url, "/trap/", ".html", trapPages); ok {
			r.resource = resourceTrap
		}
	}
	return r
}

func between(s, prefix, suffix string, limit int) (int, bool) {
	s, ok1 := strings.CutPrefix(s, prefix)
	s, ok2 := strings.CutSuffix(s, suffix)
	n, ok3 := number(s, limit)
	return n, ok1 && ok2 && ok3
}

const (
	typeHTML = "text/html; charset=utf-8"
	typeText = "text/plain; charset=utf-8"
	typeXML  = "application/xml"
)

// respond computes the response; earlier is the number of earlier requests for the same URL.
func (w *Web) respond(buf []byte, r request, earlier int, port string) response {
	resp := response{status: http.StatusOK, wait: w.cfg.Latency}
	switch r.resource {
	case resourcePage:
		if w.cfg.Changes != nil {
			return w.respondChanging(buf, r, earlier)
		}
		return w.respondPage(buf, r, earlier, port)
	case resourceRobots:
		if w.rulesOf(r.host).missing {
			return notFound(buf, resp)
		}
		resp.contentType, resp.body = typeText, w.appendRobots(buf, r.host, port)
	case resourceSitemapIndex, resourceSitemap:
		if !w.rulesOf(r.host).sitemap {
			return notFound(buf, resp)
		}
		resp.contentType = typeXML
		if r.resource == resourceSitemapIndex {
			resp.body = w.appendSitemapIndex(buf, r.host, port)
		} else {
			resp.body = w.appendSitemap(buf, r.host, r.number, port)
		}
	case resourceTrap:
		resp.contentType, resp.body = typeHTML, w.appendTrap(buf, r.host, r.number)
	default:
		return notFound(buf, resp)
	}
	return resp
}

func notFound(buf []byte, resp response) response {
	resp.status, resp.contentType = http.StatusNotFound, typeText
	resp.body = append(buf, "not found\n"...)
	return resp
}

func (w *Web) respondPage(buf []byte, r request, earlier int, port string) response {
	p := place{r.host, r.number}
	resp := response{status: http.StatusOK, contentType: typeHTML, wait: w.cfg.Latency}
	switch r.kind {
	case gone:
		resp = notFound(buf, resp)
		if r.number&1 == 0 {
			resp.status = http.StatusGone
		}
		return resp
	case flaky:
		if earlier < w.cfg.FlakyFailures {
			resp.status, resp.contentType = http.StatusInternalServerError, typeText
			if r.number&1 == 0 {
				resp.status, resp.header = http.StatusServiceUnavailable, []string{"Retry-After", "1"}
			}
			resp.body = append(buf, "try again\n"...)
			return resp
		}
	case redirect:
		to, code := w.target(p)
		resp.status = code
		resp.header = []string{"Location", w.location(p, to, port)}
		resp.body = append(buf, "moved\n"...)
		return resp
	case slow:
		resp.wait += w.cfg.SlowLatency
	}
	of := w.body(p)
	if m := w.marksOf(of); m.header && (m.nofollow || m.noindex) {
		resp.header = []string{"X-Robots-Tag", m.content()}
	}
	resp.body = w.appendBody(buf, of, port)
	return resp
}

// location writes the target of a redirect in one of several forms that servers use.
func (w *Web) location(from, to place, port string) string {
	switch {
	case from.host == to.host && to.page%3 == 0:
		return string(appendPath(nil, to.page))
	case to.page%3 == 1:
		return string(w.appendURL(nil, to, port)[len("http:"):])
	default:
		return string(w.appendURL(nil, to, port))
	}
}

// rules are the rules of a host's robots.txt for all agents.
type rules struct {
	missing  bool // there is no robots.txt: 404, everything is allowed
	shut     int  // section that is disallowed completely, -1 none
	half     int  // section disallowed except for pages whose number begins with 1, -1 none: longest match decides
	wildcard bool // "/*77.html$" is disallowed
	sitemap  bool
}

func (w *Web) rulesOf(host int) rules {
	d := w.draw(saltRobots, host, 0)
	r := rules{shut: -1, half: -1, sitemap: unit(w.draw(saltSitemap, host, 0)) < w.cfg.SitemapShare}
	if unit(d) >= w.cfg.RobotsShare {
		r.missing = d&1 == 0 && !r.sitemap && w.cfg.CrawlDelay == 0
		return r
	}
	r.shut = scale(mix(d), sections)
	if d&2 == 0 {
		r.half = (r.shut + 1 + scale(mix(d+1), sections-1)) % sections
	}
	r.wildcard = d&4 == 0
	return r
}

// allows evaluates RFC 9309, section 2.2.2, for the rules written and the paths served here.
func (r rules) allows(n int) bool {
	if n == 0 {
		return true
	}
	if n%sections == r.shut {
		return false
	}
	number := strconv.Itoa(n)
	if n%sections == r.half && number[0] != '1' {
		return false
	}
	if !r.wildcard || !strings.HasSuffix(number, "77") {
		return true
	}
	// "Allow: /s9/1" against "Disallow: /*77.html$": the longer pattern wins, and that is the
	// second.
	return false
}

func (w *Web) appendRobots(dst []byte, host int, port string) []byte {
	r := w.rulesOf(host)
	b := bytes.NewBuffer(dst)
	b.WriteString("# host " + strconv.Itoa(host) + "\nUser-agent: OtherBot\nDisallow: /\n\nUser-agent: *\n")
	if r.shut >= 0 {
		b.WriteString("Disallow: /s" + strconv.Itoa(r.shut) + "/\n")
	}
	if r.half >= 0 {
		s := strconv.Itoa(r.half)
		b.WriteString("Disallow: /s" + s + "/\nAllow: /s" + s + "/1\n")
	}
	if r.wildcard {
		b.WriteString("Disallow: /*77.html$\n")
	}
	if r.shut < 0 {
		b.WriteString("Disallow:\n")
	}
	if w.cfg.CrawlDelay > 0 {
		b.WriteString("Crawl-delay: " + strconv.FormatFloat(w.cfg.CrawlDelay.Seconds(), 'f', -1, 64) + "\n")
	}
	if r.sitemap {
		b.WriteString("\nSitemap: ")
		b.Write(w.appendOrigin(nil, host, port))
		b.WriteString("/sitemap.xml\n")
	}
	return b.Bytes()
}

// A host's sitemap is an index of parts; together they list every fifth page and all orphans.
const sitemapPages = 5000 // page numbers of one part, which lists about a fifth of them

func (w *Web) sitemapParts(host int) int {
	return (w.pages(host) + sitemapPages - 1) / sitemapPages
}

// inSitemap reports whether page n is in a host's sitemap, if it has one.
func inSitemap(n int) bool { return n%5 == 0 || orphan(n) }

// Sitemap returns the number of sitemap files of a host, with their index, and the pages in them.
func (w *Web) Sitemap(host int) (files int, pages []int) {
	if !w.rulesOf(host).sitemap {
		return 0, nil
	}
	for n := range w.pages(host) {
		if inSitemap(n) {
			pages = append(pages, n)
		}
	}
	return 1 + w.sitemapParts(host), pages
}

func (w *Web) appendSitemapIndex(dst []byte, host int, port string) []byte {
	dst = append(dst, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"...)
	for part := range w.sitemapParts(host) {
		dst = append(dst, "<sitemap><loc>"...)
		dst = w.appendOrigin(dst, host, port)
		dst = appendSitemapPath(dst, part)
		dst = append(dst, "</loc></sitemap>\n"...)
	}
	return append(dst, "</sitemapindex>\n"...)
}

func appendSitemapPath(dst []byte, part int) []byte {
	dst = append(dst, "/sitemap-"...)
	dst = strconv.AppendInt(dst, int64(part), 10)
	return append(dst, ".xml"...)
}

func (w *Web) appendSitemap(dst []byte, host, part int, port string) []byte {
	dst = append(dst, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"...)
	for n := part * sitemapPages; n < min((part+1)*sitemapPages, w.pages(host)); n++ {
		if inSitemap(n) {
			dst = append(dst, "<url><loc>"...)
			dst = w.appendURL(dst, place{host, n}, port)
			dst = append(dst, "</loc></url>\n"...)
		}
	}
	return append(dst, "</urlset>\n"...)
}

// drain is how long running responses may continue after the server is stopped.
const drain = 2 * time.Second

// Serve serves the web of cfg on the TCP address listen ("127.0.0.1:0" selects a free port) until
// ctx ends, which is not an error. It calls onReady, if not nil, once with its address, before the
// first request is accepted.
func Serve(ctx context.Context, listen string, cfg Config, onReady func(addr net.Addr)) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("serve synthetic web: %w", err)
	}
	if onReady != nil {
		onReady(l.Addr())
	}
	return New(cfg).Serve(ctx, l)
}

// Serve serves the web on l until ctx ends, which is not an error, and closes l.
func (w *Web) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, ConnState: w.audit.connects.state}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve synthetic web at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if srv.Shutdown(last) != nil {
		_ = srv.Close() // close connections that are open after the drain
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve synthetic web at %s: %w", l.Addr(), err)
	}
	return nil
}
