package rpc

import (
	"fmt"

	"github.com/apoidea/apoidea/dht/p2p"
)

// Refuse is the answer to a request that is not served here, now or ever.
func Refuse(format string, args ...any) error {
	return &p2p.Error{Code: p2p.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

// Refused says whether a peer has looked at a request and does not take it.
func Refused(err error) bool { return p2p.CodeOf(err) == p2p.CodeRefused }

// Busy is the answer of a peer at a bound: the sender keeps its work and comes back.
func Busy(text string) error { return &p2p.Error{Code: p2p.CodeBusy, Message: text} }
