package link

import "fmt"

// Outcome says how the exchange for one URL ended. The numbers are part of the wire and the disk
// format: they are only ever added to.
type Outcome uint8

// The outcomes of a URL (design, section 4).
const (
	// OutcomeNone: no exchange has ended yet.
	OutcomeNone Outcome = iota
	// OutcomeOK: a 2xx answer whose body was new to the ring.
	OutcomeOK
	// OutcomeDuplicate: a 2xx answer whose body was met before; archived as a revisit.
	OutcomeDuplicate
	// OutcomeRedirect: a 3xx answer; the target became an outlink of the same depth.
	OutcomeRedirect
	// OutcomeHTTPError: any other status, or with status 0 an answer that was none: broken off or
	// malformed. 0, 5xx, 429 and 408 are worth another try.
	OutcomeHTTPError
	// OutcomeRobotsDenied: robots.txt forbids the URL.
	OutcomeRobotsDenied
	// OutcomeRobotsUnreachable: robots.txt could not be had, so nothing may be fetched.
	OutcomeRobotsUnreachable
	// OutcomeDNS: the host's name did not resolve. NameAbsent and NameMalformed are its statuses
	// where that is known to stay so.
	OutcomeDNS
	// OutcomeConnect: no connection, or it broke off.
	OutcomeConnect
	// OutcomeTLS: the TLS handshake or the certificate failed.
	OutcomeTLS
	// OutcomeTimeout: a bound on time was reached.
	OutcomeTimeout
	// OutcomeTooLarge: a bound on size was reached.
	OutcomeTooLarge
	// OutcomeBlockedAddress: the address guard refused to dial.
	OutcomeBlockedAddress
	// OutcomeOutOfScope: the job's scope does not admit the URL.
	OutcomeOutOfScope
	// OutcomeOutOfBudget: the job's budget was used up before the URL was fetched.
	OutcomeOutOfBudget
	// OutcomeQuarantined: its leases ended again and again without a report, also when it was out
	// alone; it is left alone.
	OutcomeQuarantined
	// OutcomeOptedOut: those who run the site have asked that it is not crawled, or not this part
	// of it.
	OutcomeOptedOut
	// OutcomeTrap: its site, or the part of it, makes up pages without end that bring nothing new;
	// it was not fetched.
	OutcomeTrap
	// OutcomeNoIndex: a 2xx answer whose page asks not to be indexed (robots meta element or
	// X-Robots-Tag). Its links are followed; it is archived only with --archive-noindex, as another
	// outcome.
	OutcomeNoIndex
	// OutcomeTooManyRedirects: a 3xx answer at the end of a chain of redirects that is not followed
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

// The statuses of an OutcomeDNS, by the response codes of RFC 1035, section 4.1.1. Any other one
// may pass.
const (
	// NameMalformed: the name is none that could be asked for.
	NameMalformed = 1
	// NameAbsent: the servers say that there is no such name, or no address of it.
	NameAbsent = 3
)

// Hung is the status of an OutcomeTimeout where the host took the request: others of its URLs may
// well answer.
const Hung = 1

// String returns the outcome's stable name, as in design section 4.
func (o Outcome) String() string {
	if int(o) < Outcomes {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Fetched reports whether a page came back and was archived.
func (o Outcome) Fetched() bool { return o == OutcomeOK || o == OutcomeDuplicate }

// Retryable reports whether a later try may end otherwise; status is the HTTP status of an
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
