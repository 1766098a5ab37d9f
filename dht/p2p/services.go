package p2p

import (
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apoidea/apoidea/dht/calls"
)

// wireVersion of every service. Peers of the same major version understand
// each other; another major version is refused by protocol negotiation. It
// grows with storage.Format, since peers send each other stored records.
const wireVersion = "4.0.0"

// services are the names under which peers answer, as protocols.
type services struct{ *ground }

// protocolOf is a service's, of this version.
func (v *services) protocolOf(service string) protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/" + service + "/" + wireVersion)
}

// versionOf is the version of a service that a peer of this network announces; empty if it
// announces none.
func (v *services) versionOf(p peer.ID, service string) string {
	announced, _ := v.host.Peerstore().GetProtocols(p)
	for _, a := range announced {
		if version, ok := strings.CutPrefix(string(a), protocolRoot+v.cfg.Network+"/"+service+"/"); ok {
			return version
		}
	}
	return ""
}

// protocolRoot begins every protocol ID of ours.
const protocolRoot = "/apoidea/"

// speaks explains why a peer accepted no stream of a service: by what it
// announced that it speaks.
func (v *services) speaks(to peer.ID, service string) *calls.Error {
	announced, _ := v.host.Peerstore().GetProtocols(to)
	mine, networks, other := protocolRoot+v.cfg.Network+"/", "", ""
	for _, p := range announced {
		rest, ok := strings.CutPrefix(string(p), protocolRoot)
		if !ok {
			continue
		}
		network, rest, _ := strings.Cut(rest, "/")
		if !strings.HasPrefix(string(p), mine) {
			networks = network
		} else if name, version, _ := strings.Cut(rest, "/"); name == service {
			other = version
		}
	}
	switch {
	case other != "":
		return &calls.Error{Code: calls.CodeVersion, Message: fmt.Sprintf(
			"peer %s speaks version %s of %s, this peer speaks %s: bring both to the same release", to, other, service, wireVersion)}
	case networks != "":
		return &calls.Error{Code: calls.CodeVersion, Message: fmt.Sprintf(
			"peer %s is of network %q, this peer is of %q: --network names the ring of a peer", to, networks, v.cfg.Network)}
	default:
		return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf("peer %s does not serve %s", to, service)}
	}
}

// kadProtocol is what kad-dht makes of our prefix.
func (v *services) kadProtocol() protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/kad/1.0.0")
}
