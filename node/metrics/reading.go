package metrics

import "github.com/apoidea/apoidea/node/control"

// Reading has the figures of a peer for one scrape.
type Reading struct {
	control.Member
	// Profile is public or lab.
	Profile string

	// Requests and bytes of the worker since the start of the process.
	Requests, WireBytes, BodyBytes int64
	Outcomes                       map[string]int64 // URLs by outcome
	// Lapsed, Dropped, Spilled: leases that lapsed, reports dropped, pages written to disk.
	Lapsed, Dropped, Spilled int64
	Incomplete               int64 // responses archived incomplete
	// Stalls is the number of stalls that the watchdog detected.
	Stalls int64
	// Current work of the worker.
	InFlight, Processing, Unreported, HostsHeld, Window int

	// Replicas is the number of copies of this peer's records that other peers should keep,
	// ReplicasLevel how many of them are complete.
	Replicas, ReplicasLevel int
	// Services has the counters of each service between peers, by name.
	Services map[string]Service
	// Bounds is how often other peers reached each resource limit, by name.
	Bounds map[string]uint64
	// SitesDown and the others are bytes transferred since the start of the process.
	SitesDown, SitesUp, PeersDown, PeersUp int64
	// Connections to other peers.
	Connections int
	// Caps are the current limits, Used the current use, Holds the number of active throttles.
	Caps  control.Caps
	Used  control.Used // at present
	Holds int          // active throttles
	// DiskFree is the free space of the data directory in bytes, negative if unknown.
	DiskFree int64
	// DiskReserve is the free space below which the peer stops, in bytes.
	DiskReserve uint64
}

// Service has the counters of one service between peers: calls and their bytes, before encryption.
type Service struct {
	CallsOut, CallsIn, BytesOut, BytesIn uint64 // since the start of the process
}
