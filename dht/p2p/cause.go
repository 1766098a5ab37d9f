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

// dialCause says on one short line why a peer could not be dialled, which libp2p does on many.
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

// plainly says what one attempt came to, in words of people where the usual ones are meant.
func plainly(err error) string {
	other, mismatch := errors.AsType[sec.ErrPeerIDMismatch](err)
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case mismatch:
		return "another peer answers there, " + other.Actual.String() + ": if that is the one that is meant, its address ends in that ID"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, swarm.ErrDialTimeout),
		strings.HasSuffix(text, "i/o timeout"), strings.HasSuffix(text, "no recent network activity"):
		return "no answer: nothing runs there, or a firewall or router lets nothing through"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no way leads there from this machine"
	case errors.Is(err, network.ErrReset):
		return "the connection to it broke: it ended, or the way to it was cut; try again"
	case strings.Contains(text, "failed to negotiate security protocol"):
		return "what answers there is no peer, one of another release, or one with too much to do: try again, or compare the address with what apoidea peers --addrs prints there"
	case hungUp(err):
		return "it ended the connection: it stops or has too much to do; try again"
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return "none of its addresses can be dialled from this machine"
	case errors.Is(err, swarm.ErrGaterDisallowedConnection):
		return "an address of this machine or a private network, which --profile public does not dial"
	case errors.Is(err, swarm.ErrNoAddresses):
		return "no address of it is known"
	case errors.Is(err, network.ErrResourceLimitExceeded):
		return "this peer has as many connections as it may: try again"
	default:
		return text
	}
}

// resting is the cause of the last dial of a peer that is not dialled again yet.
type resting struct{ error }

func (r resting) Error() string { return "tried a moment ago: " + dialCause(r.error) }

// Unwrap leaves the error to programs.
func (r resting) Unwrap() error { return r.error }

// said is an error in the words of dialCause, which finds them only when somebody reads them.
type said struct{ error }

func (s said) Error() string { return dialCause(s.error) }

// Unwrap leaves the error to programs.
func (s said) Unwrap() error { return s.error }

// ListenCause says in few words why an address cannot be listened on.
func ListenCause(err error) string {
	switch {
	case comes(err, syscall.EADDRINUSE):
		return "the port is taken"
	case comes(err, syscall.EADDRNOTAVAIL):
		return "this machine has no such address"
	case comes(err, syscall.EACCES):
		return "not permitted; ports under 1024 are the system's"
	default:
		return err.Error()
	}
}

// ListenCure says what helps against it.
func ListenCure(err error) string {
	switch {
	case comes(err, syscall.EADDRNOTAVAIL):
		return "name an address that this machine has (ip addr shows them) with --listen, or /ip4/0.0.0.0 for all of them"
	case comes(err, syscall.EACCES):
		return "name a port from 1024 on with --listen"
	default:
		return "end what has the port (ss -ltnup shows it), or name another port or address with --listen"
	}
}

// comes says whether an error is the system's, of which libp2p leaves only the text.
func comes(err error, no syscall.Errno) bool {
	return errors.Is(err, no) || strings.Contains(err.Error(), no.Error())
}
