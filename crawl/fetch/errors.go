package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/apoidea/apoidea/crawl/link"
)

// Phase is the step of an exchange at which it failed.
type Phase uint8

// The phases, in their order.
const (
	// PhaseRequest: the request was invalid.
	PhaseRequest Phase = iota
	// PhaseResolve: finding the host's addresses.
	PhaseResolve
	// PhaseConnect: the guard and the TCP connect.
	PhaseConnect
	// PhaseTLS: the TLS handshake.
	PhaseTLS
	// PhaseHead: writing the request and reading the response head.
	PhaseHead
	// PhaseBody: reading the body and removing its codings. A body of which a part arrived before
	// the connection ended is no error.
	PhaseBody

	phaseEnd
)

// String returns the name of the phase.
func (p Phase) String() string {
	if p < phaseEnd {
		return [...]string{"request", "resolve", "connect", "tls", "head", "body"}[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// Error is an exchange without a response, with the outcome that the URL gets for it. A timeout is
// OutcomeTimeout in any phase but resolving.
type Error struct {
	Outcome link.Outcome // outcome of the URL
	Phase   Phase        // step that failed
	URL     string       // of the request
	Err     error        // the cause
	// Answered is the response without its body, if its head arrived: the status may be sufficient.
	Answered *Response
}

// Error names the URL, the phase and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("fetch %s: %s: %s", e.URL, e.Phase, strings.TrimPrefix(plain(e.Err), "resolve "))
}

// plain returns the text of the cause: of a connect, the system's error and the address, without
// the names of calls.
func plain(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" || op.Addr == nil {
		return err.Error()
	}
	cause := op.Err
	if call, ok := errors.AsType[*os.SyscallError](cause); ok {
		cause = call.Err
	}
	text := fmt.Sprintf("%v by %s", cause, op.Addr)
	if errors.Is(cause, syscall.ECONNREFUSED) {
		text += ": nothing listens there"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status is the detail of the outcome: for a name link.NameAbsent, link.NameMalformed, or 0 where a
// retry may help; for a timeout link.Hung where the request was made.
func (e *Error) Status() int {
	if e.Outcome == link.OutcomeTimeout && e.Phase >= PhaseHead {
		return link.Hung
	}
	var name interface {
		Malformed() bool
		Absent() bool
	}
	switch {
	case e.Outcome != link.OutcomeDNS || !errors.As(e.Err, &name):
		return 0
	case name.Malformed():
		return link.NameMalformed
	case name.Absent():
		return link.NameAbsent
	default:
		return 0
	}
}

// HostWide reports whether the host rather than this URL failed: it was unreachable, or hung up.
func (e *Error) HostWide() bool {
	return e.Outcome.HostWide() || e.Outcome == link.OutcomeTimeout && e.Phase < PhaseHead
}

// Causes for errors.Is.
var (
	// ErrBlockedAddress: the address guard rejected the address.
	ErrBlockedAddress = errors.New("address is not on the public internet")
	// ErrRefusedAddress: the operator of the address has opted out.
	ErrRefusedAddress = errors.New("the address has opted out")
	// ErrTooLarge: the head or the body exceeds its limit, or its decoded size the permitted ratio.
	ErrTooLarge = errors.New("size limit exceeded")
	// ErrNotPermitted is joined to the error that Permit returned. Such an error is not an *Error:
	// nothing was sent to the site.
	ErrNotPermitted = errors.New("request not permitted")
	// ErrStale: an idle connection was closed with a request on it, which the server may have
	// received. Such an error is not an *Error, and is returned only for a Request with Once.
	ErrStale = errors.New("idle connection was closed; the server may have received the request")
	// ErrClosed: the Fetcher was closed.
	ErrClosed = errors.New("fetcher closed")
)

// Internal causes that determine the outcome.
var (
	errTimeout    = errors.New("timeout")
	errTooSlow    = fmt.Errorf("%w: body slower than the minimum rate", errTimeout)
	errStale      = errors.New("idle connection was closed")
	errUnanswered = fmt.Errorf("%w: the server may have received the request", errStale)
	// errOnlyHTTP2: without a negotiated protocol, the server ended the connection before the first
	// byte of a response, or sent a frame of HTTP/2 (whose first byte is 0).
	errOnlyHTTP2 = errors.New("no response to HTTP/1.1")
	errNoise     = errors.New("server sent too many frames unrelated to the response")
	errMalformed = errors.New("malformed response")
)

// fail returns the error of an exchange that failed in phase: the context's own if that has ended,
// else an *Error by its cause.
func fail(ctx context.Context, url string, phase Phase, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("fetch %s: %w", url, context.Cause(ctx))
	}
	return &Error{Outcome: outcome(phase, err), Phase: phase, URL: url, Err: err}
}

func outcome(phase Phase, err error) link.Outcome {
	switch {
	case errors.Is(err, ErrBlockedAddress):
		return link.OutcomeBlockedAddress
	case errors.Is(err, ErrRefusedAddress):
		return link.OutcomeOptedOut
	case errors.Is(err, ErrTooLarge):
		return link.OutcomeTooLarge
	case phase == PhaseResolve:
		return link.OutcomeDNS
	case isTimeout(err):
		return link.OutcomeTimeout
	case phase == PhaseTLS:
		return link.OutcomeTLS
	case phase >= PhaseHead:
		// The host was reached; the failure concerns this URL. Status 0 distinguishes it from an answer.
		return link.OutcomeHTTPError
	default:
		return link.OutcomeConnect
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, errTimeout) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}
