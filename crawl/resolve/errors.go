package resolve

import "fmt"

// Kind says why a name has no address.
type Kind uint8

// The kinds of failure. NotFound and NoData are answers; the others may be gone at the next try.
const (
	// NotFound: the name does not exist (NXDOMAIN), or is no name at all.
	NotFound Kind = iota + 1
	// NoData: the name exists and has no address.
	NoData
	// ServerFailure: each server failed, refused, or answered nonsense.
	ServerFailure
	// Timeout: no server answered in time.
	Timeout
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case NotFound:
		return "no such host"
	case NoData:
		return "no address"
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
	Kind Kind   // of failure, see the kinds
	Err  error  // the cause, or nil where the kind says it all
}

// Error names host and kind, then the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("resolve %q: %s: %v", e.Host, e.Kind, e.Err)
	}
	return fmt.Sprintf("resolve %q: %s", e.Host, e.Kind)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Malformed reports whether the host is no name that could be asked for.
func (e *Error) Malformed() bool { return e.Kind == NotFound && e.Err != nil }

// Absent reports whether the servers said that there is no such name, or no address of it.
func (e *Error) Absent() bool { return !e.Temporary() && !e.Malformed() }

// Temporary reports whether asking again may help.
func (e *Error) Temporary() bool { return e.Kind == ServerFailure || e.Kind == Timeout }
