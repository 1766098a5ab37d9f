package internet

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// segment is the payload of a TCP segment over Ethernet, initialWindow how many may be sent
	// before the first acknowledgement (RFC 6928).
	segment       = 1460
	initialWindow = 10
	// maxWindow in bytes is where slow start ends: a common bound on what a receiver takes.
	maxWindow = 1 << 20
	// serverMedian is what a server needs to make a page, in the median; serverSigma is the spread
	// of its logarithm: one in ten takes over 140 ms, one in a hundred over 320 ms.
	serverMedian = 50 * time.Millisecond
	serverSigma  = 0.8
	// pageMean is the mean size of an HTML page in bytes, pageSigma the spread of the logarithm:
	// the median is about 18 kB.
	pageMean  = 38_000
	pageSigma = 1.2
	minPage   = 300
	maxPage   = 4 << 20
)

// Transfer is a download over a connection of its own, without encryption and without loss. Its
// time is
//
//   - a round trip to connect,
//   - a round trip for the request and the first bytes of the answer, with the time that the server
//     needs in between,
//   - a round trip for each further round of slow start: the window begins at ten segments of 1,460
//     bytes and doubles up to 1 MiB; a round takes longer where the slower end cannot send its
//     window within the round trip.
//
// So up to 14,600 bytes take two round trips, up to 43,800 three, up to 102,200 four.
type Transfer struct {
	RTT   time.Duration // round trip to the server
	Bytes int           // size of the answer
	// Server is the median of what the server needs; 0 means 50 ms. What it needs this time is
	// drawn around it, lognormal with sigma 0.8.
	Server time.Duration
	// Rate in bytes a second of the slower end's line, 0 for no bound.
	Rate float64
	// Slow stretches all of it, as a peer does whose processor is busy; 0 means 1.
	Slow float64
}

// Time draws how long the transfer takes. A negative RTT (nothing was measured) gives a negative
// time.
func (t Transfer) Time(rnd *rand.Rand) time.Duration {
	if t.RTT < 0 {
		return -1
	}
	server := t.Server
	if server == 0 {
		server = serverMedian
	}
	took := t.Wire().Seconds() + server.Seconds()*math.Exp(serverSigma*rnd.NormFloat64())
	if t.Slow > 0 {
		took *= t.Slow
	}
	return time.Duration(took * float64(time.Second))
}

// Wire is the part of the time that nothing is drawn for: the round trips and the line.
func (t Transfer) Wire() time.Duration {
	rtt := t.RTT.Seconds()
	line := func(bytes int) float64 {
		if t.Rate <= 0 {
			return 0
		}
		return float64(bytes) / t.Rate
	}
	took := 2 * rtt
	left, window := t.Bytes, initialWindow*segment
	for left > window {
		took += max(rtt, line(window))
		left -= window
		window = min(2*window, maxWindow)
	}
	return time.Duration((took + line(left)) * float64(time.Second))
}

// Download draws how long so many bytes take over a round trip from a server like any other:
// [Transfer] without its options.
func (n *Internet) Download(rnd *rand.Rand, rtt time.Duration, bytes int) time.Duration {
	return Transfer{RTT: rtt, Bytes: bytes}.Time(rnd)
}

// PageSize draws the size of an HTML page in bytes: lognormal, 38 kB in the mean, 18 kB in the
// median, 300 bytes to 4 MiB.
func PageSize(rnd *rand.Rand) int {
	median := pageMean * math.Exp(-pageSigma*pageSigma/2)
	return int(min(max(median*math.Exp(pageSigma*rnd.NormFloat64()), minPage), maxPage))
}
