package visits

import (
	"container/list"
	"net/netip"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// host is a granted lease, with the state of its host.
type host struct {
	*session.Lease

	visit  *Visit // under way; nil: none is
	turn   Visit  // storage of visit, as there is one at a time
	window int64  // bytes of its waiting URLs

	domain  string // whose time slices it needs; empty: none
	origins map[string]*origin
	addrs   []netip.Addr  // of recent connections; replaced, never modified
	connect time.Duration // shortest connect time, 0 if unknown
	fresh   bool          // addrs or connect are not yet reported to the owner

	strikes int // consecutive answers that requested fewer requests
	hangs
	cookies cookies // accessed by the fetcher
}

// addr returns its address; invalid while unknown.
func (h *host) addr() (addr netip.Addr) {
	if len(h.addrs) > 0 {
		addr = h.addrs[0]
	}
	return addr
}

// origin is the state of the robots.txt of one origin of a host. Only the fetcher of the host
// accesses it, except for the marked fields.
type origin struct {
	name    string
	state   robots.State // without its body
	packed  []byte       // the body, compressed with S2; nil without one. Written by the machine, for the fetcher alone
	parsed  bool         // its rules were parsed, and their delay applied
	next    string       // target of a redirect of robots.txt
	hops    int
	breaks  int            // consecutive truncated answers
	leave   string         // other origin whose robots.txt allows next
	told    []*reports.Job // jobs to which its sitemaps were reported
	failure link.Outcome   // why robots.txt is unavailable
	status  uint32         // detail of failure for a name
	detail  string

	// Fields of the machine:
	untold  bool // the state is to be reported
	newsSeq uint64
	counted int           // bytes of packed counted by the shelf
	place   *list.Element // of its rules in the shelf, nil without any
}

// set replaces the state of an origin, without its body.
func (o *origin) set(s robots.State) {
	s.Body = nil
	o.state, o.parsed, o.told = s, false, nil
}

// whole returns the state with its body.
func (o *origin) whole() (s robots.State, err error) {
	s = o.state
	if o.packed != nil {
		s.Body, err = s2.Decode(nil, o.packed)
	}
	return s, err
}

// originOf returns the robots.txt state of a URL's origin, and creates it if necessary.
func (h *host) originOf(url string) *origin {
	name := link.Origin(url)
	o := h.origins[name]
	if o == nil {
		name = strings.Clone(name) // it is a substring of a URL
		o = &origin{name: name}
		h.origins[name] = o
	}
	return o
}
