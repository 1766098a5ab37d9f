package p2p

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// dialCause says on one short line why a peer could not be dialled, which libp2p does on many.
func dialCause(err error) string {
	dial, ok := errors.AsType[*swarm.DialError](err)
	if !ok {
		return plainly(err)
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
		return "another peer answers there, " + other.Actual.String()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, swarm.ErrDialTimeout),
		strings.HasSuffix(text, "i/o timeout"), strings.HasSuffix(text, "no recent network activity"):
		return "no answer: nothing runs there, or a firewall or router lets nothing through"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no way leads there from this machine"
	case strings.Contains(text, "failed to negotiate security protocol"):
		return "what answers there is no peer, or one that speaks another version of libp2p (" + text + ")"
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return "none of its addresses can be dialled from this machine"
	default:
		return text
	}
}
