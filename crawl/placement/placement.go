package placement

import (
	"net/netip"
	"time"
)

// Candidate is a peer that may crawl a host.
type Candidate struct {
	Peer string     // bytes of its ID
	Self bool       // it is the owner of the host
	Addr netip.Addr // where it is reached, zero if that is not known
	// Backlog and Capacity are URLs, as it told last; Capacity 0 means that it told nothing yet.
	Backlog, Capacity uint32
}

// Measurement is what a candidate found.
type Measurement struct {
	RTT time.Duration // round trip, meaningless with an Err
	Err string        // why there is none
}

// View is what is known when a worker is to be chosen.
type View struct {
	Now  time.Time  // time of the question
	Host string     // to be placed
	Site netip.Addr // address of the host, zero if it is not known
	// Candidates in order of preference among equals, without those that declined; the owner is
	// among them.
	Candidates []Candidate
	// Measured is what candidates found so far, by peer.
	Measured map[string]Measurement
	// URLs are how many wait at present, 0 if that is not known. Tiny says that they are too few
	// to be worth probing, for strategies that probe every host alike.
	URLs int64
	Tiny bool // too few URLs to be worth probing
	// Anew says that the host was placed before, and that downloads by Known became slower since.
	// What was measured before does not count any more and is not in Measured.
	Anew bool
	// Known is the worker that the site's range was placed at before, if it is a candidate.
	Known string
}

// Choice is a strategy's answer.
type Choice struct {
	// Probe are the peers to measure before Next is called again; empty once Worker stands.
	Probe []string
	// Worker is the peer chosen.
	Worker string
	// URLs bounds how many URLs of the host the worker may fetch before the host is placed anew; 0:
	// no bound. So several peers take turns at a host, and never two at once.
	URLs int
	// Unsure says that another may well be better: the host is to be placed anew once it has grown.
	Unsure bool
	// Pace is by how much the host is to be asked less often than usual, as its server is slow for
	// everybody; 1 or less: as usual.
	Pace float64
	// Why says so for people.
	Why string
}

// Strategy chooses workers. Next is called with growing measurements until it names a worker; a
// peer that it asked for has a measurement then, be it an error. Not safe for concurrent use.
type Strategy interface {
	Next(v *View) Choice // returns whom to measure, or the worker
}

// Fetch is a download that was made by a worker, as a strategy learns from it.
type Fetch struct {
	At     time.Time     // when it was made
	Host   string        // of the URL
	Site   netip.Addr    // address that answered, zero if it is not known
	Worker string        // who fetched
	Took   time.Duration // from the request to the last byte
	Bytes  int64         // of the page
	Failed bool          // no answer came
}

// Observer is a strategy that learns from downloads.
type Observer interface {
	Strategy
	Observe(f *Fetch) // learns from one download
}
