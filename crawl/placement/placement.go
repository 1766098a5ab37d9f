package placement

import (
	"net/netip"
	"time"
)

// Candidate is a peer that may crawl a host.
type Candidate struct {
	Peer string     // bytes of its ID
	Self bool       // it owns the host
	Addr netip.Addr // its address, zero if unknown
	// Backlog and Capacity are URLs, as last reported; Capacity 0 means no report yet.
	Backlog, Capacity uint32
}

// Measurement is a candidate's result.
type Measurement struct {
	RTT time.Duration // round trip, undefined with an Err
	Err string        // why there is no RTT
}

// View is the input for choosing a worker.
type View struct {
	Now  time.Time  // current time
	Host string     // host to be placed
	Site netip.Addr // address of the host, zero if unknown
	// Candidates in order of preference among equals, without those that declined; the owner is
	// among them.
	Candidates []Candidate
	// Measured are the measurements so far, by peer.
	Measured map[string]Measurement
	// URLs is the number of waiting URLs, 0 if unknown. Tiny reports that they are too few to be worth
	// probing, for strategies that probe every host alike.
	URLs int64
	Tiny bool // too few URLs to be worth probing
	// Anew reports that the host was placed before, and that downloads by Known have become slower
	// since. Earlier measurements are invalid and not in Measured.
	Anew bool
	// Known is the previous worker of the site's range, if it is a candidate.
	Known string
}

// Choice is a strategy's output.
type Choice struct {
	// Probe are the peers to measure before Next is called again; empty once Worker is final.
	Probe []string
	// Worker is the peer chosen.
	Worker string
	// URLs bounds the URLs of the host that the worker may fetch before the host is placed again; 0:
	// no limit. So several peers alternate at a host, and never two at once.
	URLs int
	// Unsure reports that the host should be placed again once it has grown.
	Unsure bool
	// Pace is the factor by which the host's delay should be increased, as its server is slow for all
	// workers; 1 or less: none.
	Pace float64
	// Why is a description of the reason.
	Why string
}

// Strategy chooses workers. Next is called with growing measurements until it returns a worker; a
// peer that it requested then has a measurement, possibly an error. Not safe for concurrent use.
type Strategy interface {
	Next(v *View) Choice // returns the peers to measure, or the worker
}

// Fetch is a download by a worker, from which a strategy learns.
type Fetch struct {
	At     time.Time     // when it was made
	Host   string        // of the URL
	Site   netip.Addr    // address that answered, zero if unknown
	Worker string        // peer that fetched
	Took   time.Duration // from the request to the last byte
	Bytes  int64         // of the page
	Failed bool          // no answer
}

// Observer is a strategy that learns from downloads.
type Observer interface {
	Strategy
	Observe(f *Fetch) // learns from one download
}
