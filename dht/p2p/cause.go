package p2p

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/apoidea/apoidea/dht/calls"
)

// dialCause returns in one line why a peer could not be dialed; libp2p's error has many.
func dialCause(err error) string {
	if e, ok := errors.AsType[resting](err); ok {
		return e.Error()
	}
	dial, ok := errors.AsType[*swarm.DialError](err)
	if !ok {
		return plainly(calls.Cause(err))
	}
	var causes []string
	if dial.Cause != nil && len(dial.DialErrors) == 0 {
		causes = append(causes, plainly(dial.Cause))
	}
	for i := range dial.DialErrors {
		if cause := plainly(dial.DialErrors[i].Cause); !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	return strings.Join(causes, ", ")
}

// plainly returns the result of one attempt, in plain words for common errors.
func plainly(err error) string {
	other, mismatch := errors.AsType[sec.ErrPeerIDMismatch](err)
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case mismatch:
		return "another peer answers there, " + other.Actual.String() + ": if it is the intended one, its address ends in that ID"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, swarm.ErrDialTimeout),
		strings.HasSuffix(text, "i/o timeout"), strings.HasSuffix(text, "no recent network activity"):
		return "no answer: nothing runs there, or a firewall or router blocks it"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route from this machine"
	case errors.Is(err, network.ErrReset):
		return "connection lost: the peer stopped, or the network failed; try again"
	case strings.Contains(text, "failed to negotiate security protocol"):
		return "no compatible peer answers: another service, another release, or an overloaded peer; try again, or compare the address with apoidea peers --addrs there"
	case hungUp(err):
		return "connection closed by the peer: it is stopping or overloaded; try again"
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return "no address can be dialed from this machine"
	case errors.Is(err, swarm.ErrGaterDisallowedConnection):
		return "loopback or private address, not dialed with --profile public"
	case errors.Is(err, swarm.ErrNoAddresses):
		return "no known address"
	case errors.Is(err, network.ErrResourceLimitExceeded):
		return "connection limit of this peer reached: try again"
	default:
		return text
	}
}

// resting is the cause of the last dial of a peer in backoff.
type resting struct{ error }

func (r resting) Error() string { return "in backoff after: " + dialCause(r.error) }

// Unwrap returns the error itself.
func (r resting) Unwrap() error { return r.error }

// causedBy formats an error by dialCause when it is printed.
type causedBy struct{ error }

func (s causedBy) Error() string { return dialCause(s.error) }

// Unwrap returns the error itself.
func (s causedBy) Unwrap() error { return s.error }

// ListenCause returns a short reason why an address cannot be listened on.
func ListenCause(err error) string {
	switch {
	case comes(err, syscall.EADDRINUSE):
		return "the port is in use"
	case comes(err, syscall.EADDRNOTAVAIL):
		return "no such address on this machine"
	case comes(err, syscall.EACCES):
		return "not permitted; ports below 1024 require privileges"
	default:
		return err.Error()
	}
}

// ListenCure returns what to do about it.
func ListenCure(err error) string {
	switch {
	case comes(err, syscall.EADDRNOTAVAIL):
		return "pass an address of this machine (see ip addr) to --listen, or /ip4/0.0.0.0 for all"
	case comes(err, syscall.EACCES):
		return "pass a port of 1024 or above to --listen"
	default:
		return "stop the process that uses the port (see ss -ltnup), or pass another port or address to --listen"
	}
}

// comes reports whether an error is the system's errno; libp2p keeps only its text.
func comes(err error, no syscall.Errno) bool {
	return errors.Is(err, no) || strings.Contains(err.Error(), no.Error())
}
