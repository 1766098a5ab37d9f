package rpc

import (
	"fmt"

	"github.com/apoidea/apoidea/dht/calls"
)

// Refuse returns the error of a request that is not served here; a retry is useless.
func Refuse(format string, args ...any) error {
	return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

// Refused reports whether a peer has processed a request and rejected it.
func Refused(err error) bool { return calls.CodeOf(err) == calls.CodeRefused }

// Busy returns the error of a peer at a limit: the sender keeps its request and retries.
func Busy(text string) error { return &calls.Error{Code: calls.CodeBusy, Message: text} }
