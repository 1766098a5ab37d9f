package p2p

import (
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apoidea/apoidea/dht/calls"
)

// wireVersion is the version of every service. Protocol negotiation rejects another major version.
// It grows with storage.Format, since peers send each other stored records.
const wireVersion = "4.0.0"

// services maps service names to protocols.
type services struct{ *ground }

// protocolOf returns the protocol of a service, in this version.
func (v *services) protocolOf(service string) protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/" + service + "/" + wireVersion)
}

// versionOf returns the version of a service that a peer of this network announces; empty if none.
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

// speaks explains why a peer rejected a stream of a service, by the protocols that it announced.
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
			"peer %s uses version %s of %s, this peer %s: install the same release on both", to, other, service, wireVersion)}
	case networks != "":
		return &calls.Error{Code: calls.CodeVersion, Message: fmt.Sprintf(
			"peer %s is in network %q, this peer in %q: set --network", to, networks, v.cfg.Network)}
	default:
		return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf("peer %s does not serve %s", to, service)}
	}
}

// kadProtocol returns kad-dht's protocol for our prefix.
func (v *services) kadProtocol() protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/kad/1.0.0")
}
