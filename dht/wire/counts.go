package wire

import "github.com/apoidea/apoidea/dht/sizelimit"

// The lists of messages are counted before decoding, by the limits of Validate.
func init() {
	sizelimit.Table("apoidea.dht.v1", map[string]int{
		"Peer.addrs": MaxAddrs, "Neighbours.predecessors": MaxPeers, "Neighbours.successors": MaxPeers, "NextHopResponse.closer": MaxPeers,
		"EntryResponse.peers": MaxPeers, "AttachResponse.peers": MaxPeers, "Memory.peers": MaxPeers,
		"Admission.chain": MaxChain, "Revocation.chain": MaxChain - 1, "Standing.revocations": MaxRevocations, "Revocations.revocations": MaxRevocations,
	}, nil)
}
