package robots

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Lifetimes of an answer, and retry intervals of an unavailable one.
const (
	// MaxAge is the maximum and default lifetime of a body or its absence (RFC 9309, section 2.4).
	MaxAge = 24 * time.Hour
	// MinAge is the minimum lifetime, also where the site forbids caching: a fetch before each page
	// would double its load.
	MinAge = 5 * time.Minute
	// GiveUp is how long robots.txt may be unreachable before it counts as absent (RFC 9309, section
	// 2.3.1.4).
	GiveUp = 30 * 24 * time.Hour
	// MaxRedirects is how many redirects of robots.txt are followed (RFC 9309, section 2.3.1.2).
	MaxRedirects = 5
	// DefaultPause is the backoff after a 429 or 503 without Retry-After, and MaxPause the longest
	// backoff.
	DefaultPause = time.Minute
	MaxPause     = 24 * time.Hour
)

// retryAfter are the retry intervals of an unreachable robots.txt, by the number of consecutive
// failures; the last one applies to all further failures.
var retryAfter = [...]time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour}

// Verdict is the effect of a State on the URLs of its origin.
type Verdict uint8

// The verdicts. Part of the wire and the disk format.
const (
	// Unknown: robots.txt was never fetched. Nothing may be fetched before it is.
	Unknown Verdict = iota
	// Obey: the rules of the body decide.
	Obey
	// AllowAll: there is no robots.txt.
	AllowAll
	// DisallowAll: robots.txt is unavailable. Nothing may be fetched until it is available.
	DisallowAll

	verdictEnd
)

// String returns the verdict's name.
func (v Verdict) String() string {
	if v < verdictEnd {
		return [...]string{"unknown", "obey", "allow_all", "disallow_all"}[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// State is the result of the last fetches of one origin's robots.txt. It is plain data. Times have
// a resolution of a second: not-before times are rounded up, the others down, so that no request is
// sent too early.
type State struct {
	Verdict Verdict // current effect
	// Body is the file of the last successful fetch, at most MaxBody bytes and truncated at a whole
	// line; it is retained while the site is unreachable.
	Body []byte
	// Fetched is when Body, or its absence, was fetched.
	Fetched time.Time
	// Expires is when robots.txt must be fetched again; until then the State is valid.
	Expires time.Time
	// NotBefore is the end of a backoff requested by the site, robots.txt included. Zero: none.
	NotBefore time.Time
	// UnreachableSince is the time of the first of the consecutive failures. Zero: the last fetch
	// succeeded.
	UnreachableSince time.Time
	// Failures is the number of consecutive failures.
	Failures int
	// Length is that of Body, Home whether its rules allow "/", and Delay its Crawl-delay. Peers
	// receive these in place of the body.
	Length int
	Home   bool
	Delay  time.Duration
}

// Answer is the result of one fetch of robots.txt, after its redirects.
type Answer struct {
	// Status is that of the last response. A 3xx means too many redirects or an invalid target.
	Status int
	Header http.Header // of that response
	// Body is the decoded body, or its beginning if Truncated.
	Body      []byte
	Truncated bool // Body is incomplete
	Broken    bool // Body is incomplete and below MaxBody: the connection ended early
	// Err is the error without a response; the other fields are then unused.
	Err error
}

// FromFetch returns the State after an answer received at now, given the State before it (the zero
// State, or nil, if there was none). It keeps a copy of the body.
func FromFetch(a Answer, now time.Time, previous *State) State {
	var before State
	if previous != nil {
		before = *previous
	}
	at := now.Truncate(time.Second)
	switch {
	case a.Err != nil:
		return unreachable(before, now, 0)
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable:
		// RFC 9309 counts 429 among the 4xx that allow everything; but such a site requests fewer
		// requests.
		return unreachable(before, now, pause(a.Header, now))
	case a.Status == http.StatusNotModified && (before.Verdict == Obey || before.Verdict == DisallowAll) && before.Body != nil:
		return State{Verdict: Obey, Body: before.Body, Fetched: at, Expires: wholeSecond(now.Add(age(a.Header)))}
	case a.Status == http.StatusNotModified, a.Status < 200, a.Status >= 500:
		return unreachable(before, now, 0)
	case a.Status < 300:
		body := keepBody(a)
		if a.Broken && len(body) == 0 {
			return unreachable(before, now, 0)
		}
		return State{Verdict: Obey, Body: body, Fetched: at, Expires: wholeSecond(now.Add(age(a.Header)))}
	default: // endless 3xx and 4xx: unavailable (sections 2.3.1.2 and 2.3.1.3)
		return State{Verdict: AllowAll, Fetched: at, Expires: wholeSecond(now.Add(age(a.Header)))}
	}
}

// keepBody copies the part of the body that is parsed.
func keepBody(a Answer) []byte {
	body := asUTF8(a.Body)
	if a.Truncated || a.Broken || len(a.Body) > MaxBody {
		body = wholeLines(body)
	}
	return append([]byte{}, bound(body)...)
}

// unreachable implements RFC 9309, section 2.3.1.4: nothing is allowed, except by a body less than
// MaxAge old, and after GiveUp by the last known state. A short outage does not invalidate a body,
// and a permanent one does not block a site for ever.
func unreachable(s State, now time.Time, silence time.Duration) State {
	if s.UnreachableSince.IsZero() {
		s.UnreachableSince = now.Truncate(time.Second)
		s.Failures = 0
	}
	wait := max(retryAfter[min(s.Failures, len(retryAfter)-1)], silence)
	s.Failures++
	s.Expires = wholeSecond(now.Add(wait))
	s.NotBefore = time.Time{}
	if silence > 0 {
		s.NotBefore = wholeSecond(now.Add(silence))
	}
	switch known := s.Body != nil; {
	case now.Sub(s.UnreachableSince) >= GiveUp && known:
		s.Verdict = Obey
	case now.Sub(s.UnreachableSince) >= GiveUp:
		s.Verdict = AllowAll
	case known && now.Sub(s.Fetched) < MaxAge:
		s.Verdict = Obey
		if old := s.Fetched.Add(MaxAge); silence == 0 && s.Expires.After(old) {
			s.Expires = old
		}
	default:
		s.Verdict = DisallowAll
	}
	return s
}

// wholeSecond returns t rounded up to a whole second.
func wholeSecond(t time.Time) time.Time {
	if cut := t.Truncate(time.Second); cut.Before(t) {
		return cut.Add(time.Second)
	}
	return t
}

// Due reports whether robots.txt must be fetched before another URL is. It is not during a backoff
// that the site requested (NotBefore).
func (s *State) Due(now time.Time) bool {
	return s.Verdict == Unknown || !now.Before(s.Expires)
}

// Allowed reports whether the State allows a URL (path and query) for agent. It parses the body
// each time: use Rules for repeated calls.
func (s *State) Allowed(agent, pathQuery string) bool {
	switch s.Verdict {
	case AllowAll:
		return true
	case Obey:
		return s.Rules(agent).Allowed(pathQuery)
	case Unknown, DisallowAll, verdictEnd:
	}
	return false
}

// Rules parses the body for agent; nil, which allows everything, without a body. The caller must
// check the Verdict first.
func (s *State) Rules(agent string) *Rules {
	if s.Body == nil {
		return nil
	}
	return Parse(s.Body, agent)
}

// age returns the lifetime of an answer by its Cache-Control, less its Age, between MinAge and
// MaxAge.
func age(h http.Header) time.Duration {
	left := MaxAge
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-cache", "no-store":
				left = 0
			case "max-age":
				left = min(left, seconds(strings.Trim(value, `"`), left))
			}
		}
	}
	left -= seconds(strings.TrimSpace(h.Get("Age")), 0)
	return min(max(left, MinAge), MaxAge)
}

// pause returns the delay of the answer's Retry-After: a number of seconds, possibly with a
// fraction, or a date.
func pause(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	whole, fraction, _ := strings.Cut(value, ".")
	wait := seconds(whole, DefaultPause)
	if strings.Trim(fraction, "0") != "" {
		wait += time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, time.Second), MaxPause)
}

// seconds parses a whole number of seconds; it returns otherwise for an invalid one, and at least
// MaxPause without overflow for a huge one.
func seconds(s string, otherwise time.Duration) time.Duration {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // any number of digits is valid (RFC 9110, 10.2.3), and n is the maximum
		return otherwise
	}
	return time.Duration(min(n, 1<<31)) * time.Second
}
