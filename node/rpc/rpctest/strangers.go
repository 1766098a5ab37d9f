package rpctest

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/node/rpc"
)

// Strangers is a gate to which all callers are strangers.
type Strangers struct{}

var _ rpc.Gate = Strangers{}

// Neighbour implements rpc.Gate.
func (Strangers) Neighbour(peer.ID) bool { return false }

// Member implements rpc.Gate.
func (Strangers) Member(context.Context, peer.ID) bool { return false }

// Turned implements rpc.Gate.
func (Strangers) Turned(peer.ID, string, error) {}
