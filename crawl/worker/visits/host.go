package visits

import (
	"container/list"
	"net/netip"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// host is a lease that was granted, with what is known of its host.
type host struct {
	*session.Lease

	visit  *Visit // under way; nil: none is
	turn   Visit  // what visit points to, as there is one at a time
	window int64  // bytes of its URLs that wait

	domain  string // of which it needs turns; empty: it needs none
	origins map[string]*origin
	addrs   []netip.Addr  // where it was reached last; replaced, never changed
	connect time.Duration // the least that a connection to it took to be made, 0 if none was
	fresh   bool          // addrs or connect are news to the owner

	strikes int // answers in a row that asked for less
	hangs
	cookies cookies // the visitor's
}

func newHost(l *session.Lease) *host { return &host{Lease: l, origins: make(map[string]*origin)} }

// addr is where it is reached; none while that is not known.
func (h *host) addr() (addr netip.Addr) {
	if len(h.addrs) > 0 {
		addr = h.addrs[0]
	}
	return addr
}

// origin is what is known of the robots.txt of one origin of a host. Only the visitor of the host
// touches it, but for what is marked.
type origin struct {
	name    string
	state   robots.State // without its body
	length  int          // of the body, -1 if there is none
	encoded []byte       // the state with its body, as owners keep it; written by the machine, for the visitor, and by it alone
	parsed  bool         // its rules were made, and their delay is kept
	next    string       // where a redirect of robots.txt leads
	hops    int
	breaks  int            // answers in a row that broke off
	leave   string         // the other origin that lets next be asked for
	told    []*reports.Job // jobs that were told of its sitemaps
	failure link.Outcome   // why robots.txt could not be had
	status  uint32         // of that, where it is a name's
	detail  string

	// The machine's.
	untold  bool // the state is to be reported
	newsSeq uint64
	counted int           // bytes of encoded on the shelf
	place   *list.Element // of the rules there, nil without any
	gone    bool          // its host was forgotten
}

// set has the state of an origin be this one, which lies encoded as well.
func (o *origin) set(s robots.State) {
	if o.length = len(s.Body); s.Body == nil {
		o.length = -1
	}
	s.Body = nil
	o.state, o.parsed, o.told = s, false, nil
}

// whole is the state with its body.
func (o *origin) whole() (s robots.State, err error) {
	if o.encoded == nil {
		return o.state, nil
	}
	err = s.UnmarshalBinary(o.encoded)
	return s, err
}

// begin has the next request be for the origin's own robots.txt.
func (o *origin) begin() { o.next, o.hops, o.breaks, o.leave = "", 0, 0, "" }

// originOf is what is known of the robots.txt of a URL's origin; nothing yet where it is met first.
func (h *host) originOf(url string) *origin {
	name := link.Origin(url)
	o := h.origins[name]
	if o == nil {
		name = strings.Clone(name) // it is part of a URL
		o = &origin{name: name, length: -1}
		h.origins[name] = o
	}
	return o
}
