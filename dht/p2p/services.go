package p2p

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// wireVersion of every service. Peers of the same major version understand
// each other; another major version is refused by protocol negotiation. Since 2
// the records of hosts that go between owners and to replicas are messages.
const wireVersion = "2.0.0"

// service is one name under which calls go out and come in.
type service struct {
	name     string
	protocol protocol.ID
	handler  atomic.Pointer[Handler]
	counters counters
}

// counters of one service.
type counters struct {
	callsOut, callsIn, failed, bytesOut, bytesIn atomic.Uint64
}

// services are the names under which this peer answers and asks.
type services struct {
	*ground
	byName sync.Map // name -> *service
}

// service returns the one of that name, made when first named. Names come from
// our own code, so their number is small.
func (v *services) service(name string) *service {
	if svc, ok := v.byName.Load(name); ok {
		return svc.(*service)
	}
	svc, _ := v.byName.LoadOrStore(name, &service{name: name, protocol: v.protocolID(name, wireVersion)})
	return svc.(*service)
}

func (v *services) protocolID(service, version string) protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/" + service + "/" + version)
}

// protocolRoot begins every protocol ID of ours.
const protocolRoot = "/apoidea/"

// speaks explains why a peer accepted no stream of a service: by what it
// announced that it speaks.
func (v *services) speaks(to peer.ID, svc *service) *Error {
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
		} else if name, version, _ := strings.Cut(rest, "/"); name == svc.name {
			other = version
		}
	}
	switch {
	case other != "":
		return &Error{Code: CodeVersion, Message: fmt.Sprintf(
			"peer %s speaks version %s of %s, this peer speaks %s", to, other, svc.name, wireVersion)}
	case networks != "":
		return &Error{Code: CodeVersion, Message: fmt.Sprintf(
			"peer %s is of network %q, this peer is of %q", to, networks, v.cfg.Network)}
	default:
		return &Error{Code: CodeRefused, Message: fmt.Sprintf("peer %s does not serve %s", to, svc.name)}
	}
}

// kadProtocol is what kad-dht makes of our prefix.
func (v *services) kadProtocol() protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/kad/1.0.0")
}
