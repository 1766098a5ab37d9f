package sim

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/dhtsim"
)

// sites is the crawled web with the servers' view: the times of requests by peer.
type sites struct {
	web     *webgen.Web
	handler http.Handler
	delay   time.Duration
	extract extract.Extractor
	hosts   map[string]*siteHost
	// fetched counts, by URL, the final answers.
	fetched map[string]int
	audit   SiteAudit
}

// SiteAudit has the observations of the servers.
type SiteAudit struct {
	// Requests are all answered ones; Refetched those for a URL with an earlier final answer.
	Requests, Refetched int
	// Overlaps are requests that began during a request of another peer to the host, Impolite those of
	// another peer that came sooner after the last answer than the delay.
	Overlaps, Impolite int
}

type siteHost struct {
	index int
	busy  *visit
	last  time.Duration // end of the last request
	by    *dhtsim.Host
	asked bool
}

// visit is one request in progress.
type visit struct {
	by    *dhtsim.Host
	life  uint64
	until func() time.Duration // when its worker aborts it at the latest
}

// newSites creates the web.
func newSites(cfg webgen.Config, delay time.Duration) *sites {
	s := &sites{web: webgen.New(cfg), delay: delay, hosts: make(map[string]*siteHost), fetched: make(map[string]int)}
	s.handler = s.web.Handler()
	return s
}

// host returns the server of a name; its number is its host in the internet.
func (s *sites) host(name string) *siteHost {
	h := s.hosts[name]
	if h == nil {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "h"), ".")
		index, _ := strconv.Atoi(number)
		h = &siteHost{index: index}
		s.hosts[name] = h
	}
	return h
}

// slack is the tolerance for early requests: the granularity of durations on the wire.
const slack = 2 * time.Millisecond

// begin records the start of a request.
func (s *sites) begin(now time.Duration, name string, by *dhtsim.Host, until func() time.Duration) *visit {
	h := s.host(name)
	if other := h.busy; other != nil && other.by != by && other.by.Life() == other.life && now < other.until() {
		s.audit.Overlaps++
	} else if h.asked && h.by != by && now+slack < h.last+s.delay {
		s.audit.Impolite++
	}
	v := &visit{by: by, life: by.Life(), until: until}
	h.busy, h.by, h.asked = v, by, true
	h.last = now
	return v
}

// end records the end of a request.
func (s *sites) end(now time.Duration, name string, v *visit) {
	h := s.host(name)
	if h.busy == v {
		h.busy = nil
	}
	h.last = max(h.last, now)
}

// responder is an http.ResponseWriter in memory.
type responder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *responder) Header() http.Header { return r.header }

func (r *responder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *responder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// get requests a URL and converts the answer to a worker's report.
func (s *sites) get(address string) (f *wire.Fetched, digest [sha256.Size]byte) {
	r := &responder{header: make(http.Header)}
	u, err := url.Parse(address)
	if err != nil {
		return &wire.Fetched{Url: []byte(address), Outcome: uint32(link.OutcomeHTTPError), Status: http.StatusBadRequest}, digest
	}
	s.handler.ServeHTTP(r, &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
	s.audit.Requests++
	body := r.body.Bytes()
	digest = sha256.Sum256(body)
	f = &wire.Fetched{
		Url: []byte(address), Status: uint32(r.status), Size: uint64(len(body)), Digest: digest[:], Mime: r.header.Get("Content-Type"), // an HTTP status
		RecordId: digest[:16],
	}
	switch {
	case r.status >= 300 && r.status < 400:
		f.Outcome = uint32(link.OutcomeRedirect)
		if target, err := u.Parse(r.header.Get("Location")); err == nil {
			if to, err := link.Canonical(target.String()); err == nil {
				f.Links = [][]byte{[]byte(to)}
			}
		}
	case r.status >= 200 && r.status < 300:
		f.Outcome = uint32(link.OutcomeOK)
		f.Links = s.links(address, r.header, body)
	default:
		f.Outcome = uint32(link.OutcomeHTTPError)
		f.Digest, f.RecordId = nil, nil
	}
	if r.status < 500 {
		if s.fetched[address]++; s.fetched[address] > 1 {
			s.audit.Refetched++
		}
	}
	return f, digest
}

// links returns the links of a page that may be followed.
func (s *sites) links(address string, header http.Header, body []byte) (links [][]byte) {
	var page extract.Page
	if err := s.extract.Document(&page, address, header, body, extract.Options{}); err != nil {
		return nil
	}
	for _, l := range page.Links {
		if !l.Nofollow && l.Kind == link.KindPage {
			links = append(links, []byte(l.URL))
		}
	}
	return links
}
