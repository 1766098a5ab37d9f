package metrics

import "github.com/apoidea/apoidea/node/control"

// Reading is what is read of a peer for one answer.
type Reading struct {
	control.Member
	// Profile is public or lab.
	Profile string

	// What the worker did since the process was started.
	Requests, WireBytes, BodyBytes int64
	Outcomes                       map[string]int64 // URLs by outcome
	// Lapsed, Dropped, Spilled: leases that lapsed, reports dropped, pages that went to disk.
	Lapsed, Dropped, Spilled int64
	Incomplete               int64 // answers kept without their end
	// Stalls is how often nothing moved in the peer although there was work.
	Stalls int64
	// What it has in hand.
	InFlight, Processing, Unreported, HostsHeld, Window int

	// Replicas is how many copies of this peer's records other peers are to keep, ReplicasLevel how
	// many of them have everything.
	Replicas, ReplicasLevel int
	// Services is what each service between peers did since the process was started, by its name.
	Services map[string]Service
	// Bounds is how often other peers met each bound on what they may use of this one, by its name.
	Bounds map[string]uint64
	// SitesDown and the others are bytes that came and went since the process was started.
	SitesDown, SitesUp, PeersDown, PeersUp int64
	// Connections to other peers.
	Connections int
	// Caps are the limits that hold now, Used is what is used of them, Holds the number of rules
	// that hold something back.
	Caps  control.Caps
	Used  control.Used // at present
	Holds int          // rules that hold something back
	// DiskFree is the free space of the data directory in bytes, negative where it cannot be told.
	DiskFree int64
	// DiskReserve is the free space at which the peer stops, in bytes.
	DiskReserve uint64
}

// Service is what one service between peers did: calls and bytes of them, before encryption.
type Service struct {
	CallsOut, CallsIn, BytesOut, BytesIn uint64 // since the process was started
}
