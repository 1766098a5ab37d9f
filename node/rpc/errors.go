package rpc

import (
	"fmt"

	"github.com/apoidea/apoidea/dht/calls"
)

// Refuse is the answer to a request that is not served here, now or ever.
func Refuse(format string, args ...any) error {
	return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

// Refused says whether a peer has looked at a request and does not take it.
func Refused(err error) bool { return calls.CodeOf(err) == calls.CodeRefused }

// Busy is the answer of a peer at a bound: the sender keeps its work and comes back.
func Busy(text string) error { return &calls.Error{Code: calls.CodeBusy, Message: text} }
