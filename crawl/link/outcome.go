package link

import (
	"fmt"
	"slices"
)

// Outcome is the result of the exchange for one URL. The numbers are part of the wire and the disk
// format: new ones are only appended.
type Outcome uint8

// The outcomes of a URL (design, section 4).
const (
	// OutcomeNone: no exchange has ended yet.
	OutcomeNone Outcome = iota
	// OutcomeOK: a 2xx answer with a body new to the ring.
	OutcomeOK
	// OutcomeDuplicate: a 2xx answer with a known body; archived as a revisit.
	OutcomeDuplicate
	// OutcomeRedirect: a 3xx answer; the target became an outlink of the same depth.
	OutcomeRedirect
	// OutcomeHTTPError: any other status, or with status 0 a truncated or malformed answer. 0, 5xx,
	// 429 and 408 are retryable.
	OutcomeHTTPError
	// OutcomeRobotsDenied: robots.txt forbids the URL.
	OutcomeRobotsDenied
	// OutcomeRobotsUnreachable: robots.txt is unavailable, so nothing may be fetched.
	OutcomeRobotsUnreachable
	// OutcomeDNS: the host's name did not resolve. NameAbsent and NameMalformed are its statuses for
	// permanent failures.
	OutcomeDNS
	// OutcomeConnect: no connection, or it was interrupted.
	OutcomeConnect
	// OutcomeTLS: the TLS handshake or the certificate failed.
	OutcomeTLS
	// OutcomeTimeout: a timeout expired.
	OutcomeTimeout
	// OutcomeTooLarge: a size limit was exceeded.
	OutcomeTooLarge
	// OutcomeBlockedAddress: the address guard blocked the address.
	OutcomeBlockedAddress
	// OutcomeOutOfScope: the job's scope does not admit the URL.
	OutcomeOutOfScope
	// OutcomeOutOfBudget: the job's budget was used up before the URL was fetched.
	OutcomeOutOfBudget
	// OutcomeQuarantined: its leases repeatedly ended without a report, also when it was granted
	// alone; it is not tried again.
	OutcomeQuarantined
	// OutcomeOptedOut: the site's operator has opted out of crawling, for all or part of it.
	OutcomeOptedOut
	// OutcomeTrap: its site, or that part of it, generates endless pages without new content; it was
	// not fetched.
	OutcomeTrap
	// OutcomeNoIndex: a 2xx answer whose page requests not to be indexed (robots meta element or
	// X-Robots-Tag). Its links are followed; it is archived only with --archive-noindex, with another
	// outcome.
	OutcomeNoIndex
	// OutcomeTooManyRedirects: a 3xx answer at the end of a redirect chain that is not followed
	// further.
	OutcomeTooManyRedirects

	outcomeEnd
)

// Outcomes is the number of outcomes, for arrays indexed by them.
const Outcomes = int(outcomeEnd)

var outcomeNames = [Outcomes]string{
	"none", "ok", "duplicate", "redirect", "http_error", "robots_denied", "robots_unreachable", "dns", "connect", "tls",
	"timeout", "too_large", "blocked_address", "out_of_scope", "out_of_budget", "quarantined", "opted_out", "trap", "noindex",
	"too_many_redirects",
}

// The statuses of an OutcomeDNS, by the response codes of RFC 1035, section 4.1.1. All others may
// be temporary.
const (
	// NameMalformed: the name is invalid.
	NameMalformed = 1
	// NameAbsent: the servers answered that the name, or an address of it, does not exist.
	NameAbsent = 3
)

// Hung is the status of an OutcomeTimeout after the host had accepted the request: its other URLs
// may answer.
const Hung = 1

// String returns the outcome's stable name, as in design section 4.
func (o Outcome) String() string {
	if int(o) < Outcomes {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// OutcomeNamed returns the outcome of that name; OutcomeNone for an unknown one.
func OutcomeNamed(name string) Outcome { return Outcome(max(slices.Index(outcomeNames[:], name), 0)) } //nolint:gosec // an index

// Fetched reports whether a page was received and archived.
func (o Outcome) Fetched() bool { return o == OutcomeOK || o == OutcomeDuplicate }

// IsError reports whether status counts the outcome as an error.
func (o Outcome) IsError() bool {
	switch o {
	case OutcomeNone, OutcomeOK, OutcomeDuplicate, OutcomeNoIndex, OutcomeRedirect, OutcomeRobotsDenied, OutcomeOutOfScope, OutcomeOutOfBudget, OutcomeTrap:
		return false
	default:
		return true
	}
}

// Retryable reports whether a retry may have another outcome; status is the HTTP status of an
// OutcomeHTTPError or that of an OutcomeDNS, else ignored.
func (o Outcome) Retryable(status int) bool {
	switch o {
	case OutcomeRobotsUnreachable, OutcomeConnect, OutcomeTimeout:
		return true
	case OutcomeDNS:
		return status != NameMalformed
	case OutcomeHTTPError:
		return status == 0 || status >= 500 || status == 429 || status == 408
	default:
		return false
	}
}

// HostWide reports whether the failure concerns the whole host rather than the one URL, so that its
// other URLs wait as well.
func (o Outcome) HostWide() bool {
	switch o {
	case OutcomeRobotsUnreachable, OutcomeDNS, OutcomeConnect, OutcomeTLS, OutcomeBlockedAddress:
		return true
	default:
		return false
	}
}
