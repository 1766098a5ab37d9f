package calls

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
)

var (
	// ErrUnreachable is what every error is that comes from a peer that cannot
	// be dialled or whose stream broke before the answer came. Whether the peer
	// received the request is then unknown.
	ErrUnreachable = errors.New("peer unreachable")
	// ErrTooLarge refuses a request or an answer beyond MaxPayload.
	ErrTooLarge = errors.New("message too large")
	// ErrClosed is what a call on a closed Endpoint returns.
	ErrClosed = errors.New("network closed")
)

// Code says why a peer did not serve a call.
type Code uint32

const (
	// CodeInternal: the handler failed; a later try may succeed.
	CodeInternal Code = iota + 1
	// CodeMoved: another peer serves this; Detail carries the service's hints.
	CodeMoved
	// CodeBusy: a bound is reached; keep the work and come back.
	CodeBusy
	// CodeRefused: not served here, now or ever.
	CodeRefused
	// CodeVersion: the peer speaks another major version or is of another network.
	CodeVersion
)

// String is the code in words.
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

// Error is a peer's own answer that it did not do what was asked. A handler
// returns one to choose the code; any other error of a handler arrives as
// CodeInternal with its text.
type Error struct {
	Code    Code   // why, for programs
	Detail  []byte // of the service, at most MaxErrorDetail bytes
	Message string // for people, cut to MaxErrorMessage bytes
}

// Error is the code in words, with the message if there is one.
func (e *Error) Error() string {
	switch {
	case e.Message == "":
		return e.Code.String()
	case e.Code == CodeVersion: // says all of it
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

// asError turns what a handler returned into what travels.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// Unreachable is an ErrUnreachable with its peer and cause.
func Unreachable(to peer.ID, cause error) error { return &unreachable{to, cause} }

type unreachable struct {
	peer  peer.ID
	cause error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("peer %s unreachable: %v", e.peer, e.cause)
}

// Cause is what an ErrUnreachable came of, without the name of the peer; any other error is itself.
func Cause(err error) error {
	if e, ok := errors.AsType[*unreachable](err); ok {
		return e.cause
	}
	return err
}

func (e *unreachable) Unwrap() []error { return []error{ErrUnreachable, e.cause} }
