package metrics

import (
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
)

// Reading holds the values of a peer for one scrape.
type Reading struct {
	control.Member
	// Profile is public or lab.
	Profile string

	Work worker.Stats // of this peer since the start of the process

	// Replicas is the number of replicas that other peers should hold of this peer's records,
	// ReplicasLevel the number of complete ones.
	Replicas, ReplicasLevel int
	// Services holds the calls between peers since the start of the process, by service.
	Services map[string]Service
	// Bytes received (down) and sent (up) since the start of the process.
	SitesDown, SitesUp, PeersDown, PeersUp int64
	// Connections to other peers.
	Connections int
	// Caps holds the limits in force, Used the usage, and Holds the number of rules that throttle
	// the peer.
	Caps  control.Caps
	Used  control.Used
	Holds int
	// DiskFree is the free space of the data directory in bytes, negative where unknown.
	DiskFree int64
	// DiskReserve is the free space below which the peer stops, in bytes.
	DiskReserve uint64
}

// Service counts the calls of one service between peers, and their bytes before encryption.
type Service struct {
	CallsOut, CallsIn, BytesOut, BytesIn uint64 // since the start of the process
}
