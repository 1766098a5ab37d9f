package calls

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
)

var (
	// ErrUnreachable reports a peer that cannot be dialed or whose stream broke before the answer. The
	// peer may or may not have received the request.
	ErrUnreachable = errors.New("peer unreachable")
	// ErrTooLarge reports a request or answer beyond MaxPayload.
	ErrTooLarge = errors.New("message too large")
	// ErrClosed is returned by calls on a closed Endpoint.
	ErrClosed = errors.New("network closed")
)

// Code is the reason why a peer did not serve a call.
type Code uint32

const (
	// CodeInternal: the handler failed; a retry may succeed.
	CodeInternal Code = iota + 1
	// CodeMoved: another peer serves this; Detail has hints of the service.
	CodeMoved
	// CodeBusy: a limit is reached; keep the request and retry later.
	CodeBusy
	// CodeRefused: not served here, a retry is useless.
	CodeRefused
	// CodeVersion: incompatible protocol version or another network.
	CodeVersion
)

// String returns the name of the code.
func (c Code) String() string {
	switch c {
	case CodeInternal:
		return "internal"
	case CodeMoved:
		return "moved"
	case CodeBusy:
		return "busy"
	case CodeRefused:
		return "refused"
	case CodeVersion:
		return "unknown version"
	default:
		return fmt.Sprintf("code %d", uint32(c))
	}
}

// Error is a peer's answer that it did not serve a call. A handler returns one to choose the code;
// any other error of a handler arrives as CodeInternal with its text.
type Error struct {
	Code    Code   // machine-readable reason
	Detail  []byte // defined by the service, at most MaxErrorDetail bytes
	Message string // for people, truncated to MaxErrorMessage bytes
}

// Error returns the code's name and the message, if any.
func (e *Error) Error() string {
	switch {
	case e.Message == "":
		return e.Code.String()
	case e.Code == CodeVersion: // the message is complete
		return e.Message
	}
	return e.Code.String() + ": " + e.Message
}

// CodeOf returns the code of the *Error in err's chain, or 0 if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// asError converts a handler's error to the one that is sent.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// Unreachable returns an ErrUnreachable with its peer and cause.
func Unreachable(to peer.ID, cause error) error { return &unreachable{to, cause} }

type unreachable struct {
	peer  peer.ID
	cause error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("peer %s unreachable: %v", e.peer, e.cause)
}

// Cause returns the cause of an ErrUnreachable, without the peer's name; any other error unchanged.
func Cause(err error) error {
	if e, ok := errors.AsType[*unreachable](err); ok {
		return e.cause
	}
	return err
}

func (e *unreachable) Unwrap() []error { return []error{ErrUnreachable, e.cause} }
