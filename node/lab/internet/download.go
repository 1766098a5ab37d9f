package internet

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// segment is the payload of a TCP segment over Ethernet, initialWindow the number sent before the
	// first acknowledgement (RFC 6928).
	segment       = 1460
	initialWindow = 10
	// maxWindow is the window in bytes at which slow start ends: a common receive window.
	maxWindow = 1 << 20
	// serverMedian is the median time of a server to generate a page; serverSigma is the spread of its
	// logarithm: 10% take over 140 ms, 1% over 320 ms.
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
// time is the sum of
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
	RTT   time.Duration // to the server
	Bytes int           // size of the answer
	// Server is the median server time; 0 means 50 ms. The actual one is lognormal with sigma 0.8.
	Server time.Duration
	// Rate is the bytes per second of the slower line, 0 for unlimited.
	Rate float64
	// Slow multiplies the total time, for a peer with a busy CPU; 0 means 1.
	Slow float64
}

// Time draws the duration of the transfer. A negative RTT (unmeasured) gives a negative time.
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

// Wire returns the deterministic part of the time: the round trips and the line.
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

// PageSize draws the size of an HTML page in bytes: lognormal, mean 38 kB, median 18 kB, 300 bytes
// to 4 MiB.
func PageSize(rnd *rand.Rand) int {
	median := pageMean * math.Exp(-pageSigma*pageSigma/2)
	return int(min(max(median*math.Exp(pageSigma*rnd.NormFloat64()), minPage), maxPage))
}
