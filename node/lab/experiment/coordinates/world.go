package coordinates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// The peers of the thesis ran on PlanetLab: shared machines, of which some were so busy that a near
// one was slower than a far one. How busy they are, how much downloads vary and how long servers
// need is not stated there, so the constants below were fitted, on seed 1 of the synthetic
// internet, to figures of the thesis: the stalls to the 90th percentile of random placement;
// servers and variation (with the filter's window minimum) to the number of updates. Those figures
// show that the thesis' numbers are possible, not that they were predicted. What placement saves
// was not fitted, but it depends on the stalls.
const (
	// peerWait is the CPU wait of a peer's program at each arrival: the median over peers in ms,
	// the spread of its logarithm over peers (one in ten waits more than 90 ms), and its variation
	// over time.
	peerWait, peerWaitSigma, waitSwing = 20, 1.2, 0.3
	// messageWaits is the number of waits of a message at each end, since the program takes the
	// time stamps: socket, queue, handler. A download has one per round trip, and one more to read
	// the page.
	messageWaits = 3
	// peerRate is the median line of a peer in bytes a second, peerRateSigma the spread.
	peerRate, peerRateSigma = 1.5e6, 0.8
	// serverOwn is the median over servers of the time to make a page in ms, serverOwnSigma the
	// spread over servers, serverSwing that of one server's pages.
	serverOwn, serverOwnSigma, serverSwing = 260, 1.0, 0.15
	// A download stalls, by a lost packet or a starved process, with a probability of stallBase and
	// up to stallBusy more at a busy peer: half of that at a wait of stallAt ms. A stall takes
	// stallMean ms in the mean, exponential: a first retransmission took 3 s then.
	stallBase, stallBusy, stallAt, stallMean = 0.03, 0.8, 100, 6000
	// failBase of the downloads fail, and failBusy times the probability to stall; those that take
	// longer than downloadTimeout fail as well.
	failBase, failBusy = 0.025, 0.15
	downloadTimeout    = 60 * time.Second
)

// coordWorld is a set of peers and servers between which downloads and messages take time.
type coordWorld struct {
	net     *internet.Internet
	peers   []coordPeer
	servers []coordServer
	rtt     [][]float64 // ms, of peer and server
	between [][]float64 // ms, of two peers
}

type coordPeer struct {
	id   string
	host int
	wait float64 // ms
	rate float64
	// stretch multiplies download times, for a throttled line; usually 1.
	stretch float64
}

type coordServer struct {
	host int
	addr netip.Addr // one of its own: several servers may stand at one host of a small matrix
	own  float64    // ms
	// extra is additional time in ms, for an overloaded server.
	extra float64
}

// newCoordWorld draws peers and servers. Servers share hosts where a matrix has too few.
func newCoordWorld(net *internet.Internet, rnd *rand.Rand, peers, servers int) (*coordWorld, error) {
	sites := servers
	if size := net.Size(); size > 0 {
		sites = min(servers, size-peers)
	}
	if sites < 1 {
		return nil, fmt.Errorf("%w: %d hosts are too few for %d peers and a server", trial.ErrOptions, net.Size(), peers)
	}
	p, s, err := net.Draw(rnd, peers, sites)
	if err != nil {
		return nil, err
	}
	return coordWorldOf(net, rnd, p, s, servers), nil
}

// coordWorldOf returns a world of peers and servers at hosts, reused in turn if there are more
// servers.
func coordWorldOf(net *internet.Internet, rnd *rand.Rand, p, s []int, servers int) *coordWorld {
	w := &coordWorld{net: net}
	around := func(median, sigma float64) float64 { return median * math.Exp(sigma*rnd.NormFloat64()) }
	for i, host := range p {
		w.peers = append(w.peers, coordPeer{
			id: fmt.Sprintf("peer%02d", i), host: host, wait: around(peerWait, peerWaitSigma), rate: around(peerRate, peerRateSigma), stretch: 1,
		})
	}
	for i := range servers {
		w.servers = append(w.servers, coordServer{host: s[i%len(s)], addr: serverAddr(i), own: around(serverOwn, serverOwnSigma)})
	}
	w.measure()
	return w
}

// serverAddr is the key of a server: each has its own /24, out of unassigned addresses.
func serverAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{240 + byte(i>>16), byte(i >> 8), byte(i), 1}) // below 2^20 servers
}

// serverOf is the server with that key.
func serverOf(addr netip.Addr) int {
	b := addr.As4()
	return int(b[0]-240)<<16 | int(b[1])<<8 | int(b[2])
}

// measure reads the round trips once, in ms.
func (w *coordWorld) measure() {
	get := func(a, b int) float64 { return float64(w.net.RTT(a, b)) / float64(time.Millisecond) }
	for i := range w.peers {
		row := make([]float64, len(w.servers))
		for s := range w.servers {
			row[s] = get(w.peers[i].host, w.servers[s].host)
		}
		w.rtt = append(w.rtt, row)
		other := make([]float64, len(w.peers))
		for j := range w.peers {
			if i != j {
				other[j] = get(w.peers[i].host, w.peers[j].host)
			}
		}
		w.between = append(w.between, other)
	}
}

// wire is the network time of a download in ms, see internet.Transfer.
func (w *coordWorld) wire(p, s, bytes int) float64 {
	t := internet.Transfer{RTT: time.Duration(w.rtt[p][s] * float64(time.Millisecond)), Bytes: bytes, Rate: w.peers[p].rate}
	return float64(t.Wire()) / float64(time.Millisecond)
}

// roundTrips of a download: connect, request, and each further round of slow start (as
// internet.Transfer counts them).
func roundTrips(bytes int) int {
	trips, window := 2, 10*1460
	for bytes > window {
		bytes -= window
		window *= 2
		trips++
	}
	return trips
}

// stall returns the probability that a download of the peer stalls.
func (p *coordPeer) stall() float64 { return stallBase + stallBusy*p.wait/(p.wait+stallAt) }

// waits draws n CPU waits, in ms.
func (p *coordPeer) waits(rnd *rand.Rand, n int) float64 {
	sum := 0.0
	for range n {
		sum += p.wait * math.Exp(waitSwing*rnd.NormFloat64())
	}
	return sum
}

// download draws a download of so many bytes by a peer from a server.
func (w *coordWorld) download(rnd *rand.Rand, p, s, bytes int) (took time.Duration, failed bool) {
	peer, server := &w.peers[p], &w.servers[s]
	ms := w.wire(p, s, bytes) + server.own*math.Exp(serverSwing*rnd.NormFloat64()) + peer.waits(rnd, roundTrips(bytes)+1)
	if rnd.Float64() < peer.stall() {
		ms += stallMean * rnd.ExpFloat64()
	}
	failed = rnd.Float64() < failBase+failBusy*peer.stall()
	took = time.Duration((ms*peer.stretch + server.extra) * float64(time.Millisecond))
	return min(took, downloadTimeout), failed || took >= downloadTimeout
}

// ping draws a probe of a server by a peer.
func (w *coordWorld) ping(rnd *rand.Rand, p, s int) time.Duration {
	return time.Duration((w.rtt[p][s] + w.peers[p].waits(rnd, 1)) * float64(time.Millisecond))
}

// message draws the round trip of a message between two peers, as measured by their programs.
func (w *coordWorld) message(rnd *rand.Rand, p, q int) time.Duration {
	ms := w.between[p][q] + w.peers[p].waits(rnd, messageWaits) + w.peers[q].waits(rnd, messageWaits)
	return time.Duration(ms * float64(time.Millisecond))
}

// pageMean is the mean size of a page in bytes: 13,465.4 MB in 173,588 answers (thesis, 5.4.2).
const pageMean = 77_600

// pageSize draws the size of a page.
func pageSize(rnd *rand.Rand) int {
	return int(float64(internet.PageSize(rnd)) * pageMean / internet.PageMean)
}

// usualPage is the size at which the oracle compares, in bytes: about the median.
const usualPage = 37_000

// expected is the mean time of a download of a usual page in ms, by which the oracle chooses.
func (w *coordWorld) expected(p, s int) float64 {
	peer, server := &w.peers[p], &w.servers[s]
	waits := float64(roundTrips(usualPage)+1) * peer.wait * math.Exp(waitSwing*waitSwing/2)
	return (w.wire(p, s, usualPage)+server.own+waits+peer.stall()*stallMean)*peer.stretch + server.extra
}

// oracle returns the peer with the least expected time.
func (w *coordWorld) oracle(s int) int {
	best := 0
	for p := range w.peers {
		if w.expected(p, s) < w.expected(best, s) {
			best = p
		}
	}
	return best
}

// geo returns the peer at the smallest great-circle distance, false without a position.
func (w *coordWorld) geo(s int) (int, bool) {
	site := worlds.Locate(w.net, w.servers[s].host)
	best, least := -1, math.Inf(1)
	if site.Precision == placement.NoPosition {
		return 0, false
	}
	for p := range w.peers {
		at := worlds.Locate(w.net, w.peers[p].host)
		if at.Precision == placement.NoPosition {
			continue
		}
		if d := at.Distance(site); d < least {
			best, least = p, d
		}
	}
	return best, best >= 0
}
