package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/apoidea/apoidea/crawl/link"
)

// Phase says how far an exchange came.
type Phase uint8

// The phases, in their order.
const (
	// PhaseRequest: the request could not be made of what the caller gave.
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

// String returns what was being done, as a word.
func (p Phase) String() string {
	if p < phaseEnd {
		return [...]string{"request", "resolve", "connect", "tls", "head", "body"}[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// Error is an exchange that came to no response, with the outcome that the URL gets for it. A bound
// on time is OutcomeTimeout in any phase but resolving.
type Error struct {
	Outcome link.Outcome // what the URL gets
	Phase   Phase        // how far it came
	URL     string       // the request's
	Err     error        // the cause
	// Answered is the response without its body, if its head came: what the status means by itself
	// still holds.
	Answered *Response
}

// Error names the URL, the phase and the cause.
func (e *Error) Error() string { return fmt.Sprintf("fetch %s: %s: %s", e.URL, e.Phase, plain(e.Err)) }

// plain is the cause in words: of a connect, what the system says and of which address, without the
// calls that it came by.
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

// Status is what the outcome says beyond itself: of a name link.NameAbsent, link.NameMalformed, or
// 0 where another try may help; of a timeout link.Hung where the request was made.
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

// HostWide reports whether the host rather than this URL failed: it was not reached, or hung up.
func (e *Error) HostWide() bool {
	return e.Outcome.HostWide() || e.Outcome == link.OutcomeTimeout && e.Phase < PhaseHead
}

// Causes that are told apart by errors.Is.
var (
	// ErrBlockedAddress is the guard's refusal.
	ErrBlockedAddress = errors.New("address is not on the public internet")
	// ErrRefusedAddress: those who run the address wish not to be asked.
	ErrRefusedAddress = errors.New("the address has opted out")
	// ErrTooLarge: the head or the body is over its bound, or grows out of proportion when
	// unpacked.
	ErrTooLarge = errors.New("over the size bound")
	// ErrNotPermitted is joined to the error that Permit returned. Such an error is not an *Error:
	// nothing was asked of the site.
	ErrNotPermitted = errors.New("request not permitted")
	// ErrStale: a connection that had lain idle was closed with a request on it, which the server
	// may have seen. Such an error is not an *Error, and only those hear of it who asked for that
	// with Request.Once.
	ErrStale = errors.New("connection was closed while idle, perhaps with the request")
	// ErrClosed: the Fetcher was closed.
	ErrClosed = errors.New("fetcher closed")
)

// Reasons within an exchange that decide its outcome.
var (
	errTimeout = errors.New("bound on time reached")
	errTooSlow = fmt.Errorf("%w: body slower than the least rate", errTimeout)
	errStale   = errors.New("connection was closed while idle")
	errUnheard = fmt.Errorf("%w: the request may have come through", errStale)
	// errOnlyHTTP2: without a protocol agreed on, the server ended the connection before the first
	// byte of a response, or sent a frame of HTTP/2 (whose first byte is 0).
	errOnlyHTTP2 = errors.New("no response to HTTP/1.1")
	errNoise     = errors.New("the server sends frames that are no part of the response")
	errMalformed = errors.New("malformed response")
)

// fail makes the error of an exchange that broke in phase: the context's own if that has ended,
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
		// The host was reached; what it answered, or that it broke off, is of this URL. Status 0
		// tells it from an answer.
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
