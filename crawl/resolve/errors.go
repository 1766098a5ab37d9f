package resolve

import "fmt"

// Kind classifies why a name has no address.
type Kind uint8

// The kinds of failure. NotFound is an answer; the others may be temporary.
const (
	// NotFound: the name or an address of it does not exist, or the name is invalid.
	NotFound Kind = iota + 1
	// ServerFailure: each server failed, refused, or sent an invalid answer.
	ServerFailure
	// Timeout: no server answered in time.
	Timeout
)

// String returns a description of the kind.
func (k Kind) String() string {
	switch k {
	case NotFound:
		return "no such host"
	case ServerFailure:
		return "server failure"
	case Timeout:
		return "timeout"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Error is the failure of a lookup. It is an answer about the name: a lookup that ends because its
// own context ended returns the context's error instead.
type Error struct {
	Host string // name that was looked up
	Kind Kind   // of failure
	Err  error  // the cause, or nil where Kind is sufficient
}

// Error returns host and kind, then the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("resolve %q: %s: %v", e.Host, e.Kind, e.Err)
	}
	return fmt.Sprintf("resolve %q: %s", e.Host, e.Kind)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Malformed reports whether the host is not a valid name.
func (e *Error) Malformed() bool { return e.Kind == NotFound && e.Err != nil }

// Absent reports whether the servers answered that the name, or an address of it, does not exist.
func (e *Error) Absent() bool { return e.Kind == NotFound && e.Err == nil }

// Temporary reports whether a retry may succeed.
func (e *Error) Temporary() bool { return e.Kind != NotFound }
