package robots

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How long an answer holds, and when one that could not be had is asked for again.
const (
	// MaxAge is how long a body or its absence is believed at most, and where the site does not say
	// less (RFC 9309, section 2.4).
	MaxAge = 24 * time.Hour
	// MinAge is how long it is believed at least, also where the site forbids caching: asking
	// before each page would double its load.
	MinAge = 5 * time.Minute
	// GiveUp is how long robots.txt may be unreachable before it counts as not there (RFC 9309,
	// section 2.3.1.4).
	GiveUp = 30 * 24 * time.Hour
	// MaxRedirects is how many redirects of robots.txt are followed (RFC 9309, section 2.3.1.2).
	MaxRedirects = 5
	// DefaultPause is the pause after a 429 or 503 that names none, and MaxPause the longest that
	// is kept.
	DefaultPause = time.Minute
	MaxPause     = 24 * time.Hour
)

// retryAfter is when an unreachable robots.txt is asked for again, by the number of failures in a
// row; the last counts for all further ones.
var retryAfter = [...]time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour}

// Verdict says what a State means for the URLs of its origin.
type Verdict uint8

// The verdicts. Part of the wire and the disk format.
const (
	// Unknown: robots.txt was never asked for. Nothing may be fetched before it is.
	Unknown Verdict = iota
	// Obey: the rules of the body decide.
	Obey
	// AllowAll: there is no robots.txt.
	AllowAll
	// DisallowAll: robots.txt could not be had. Nothing may be fetched until it can.
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

// State is what the last fetches of one origin's robots.txt came to. It is plain data. Times are
// kept to the second: those that are waited for are rounded up, the others down, so that nobody is
// asked too early.
type State struct {
	Verdict Verdict // what holds at present
	// Body is the file last had, at most MaxBody bytes and cut at a whole line; it stays while the
	// site is unreachable.
	Body []byte
	// Fetched is when Body, or the certainty that there is none, was had.
	Fetched time.Time
	// Expires is when robots.txt is to be asked for again; until then the State holds.
	Expires time.Time
	// NotBefore is until when the site asked for silence, robots.txt included. Zero: it did not.
	NotBefore time.Time
	// UnreachableSince is when the first of the failures in a row was. Zero: the last fetch
	// succeeded.
	UnreachableSince time.Time
	// Failures is the number of failures in a row.
	Failures int
}

// Answer is what one fetch of robots.txt met, after its redirects.
type Answer struct {
	// Status is that of the last response. A 3xx means that the redirects were too many or led
	// nowhere.
	Status int
	Header http.Header // of that response
	// Body is the decoded body, or its beginning if Truncated.
	Body      []byte
	Truncated bool // Body is only the beginning
	Broken    bool // so is it, and its end is not beyond MaxBody: the answer broke off
	// Err is why there is no response at all; the rest is then unused.
	Err error
}

// FromFetch says what follows from an answer that came at now, given the State before it (the zero
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
		// RFC 9309 would have 429 among the 4xx that allow everything; that is not what a site
		// means that asks for less.
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
	default: // 3xx without end and 4xx: unavailable (sections 2.3.1.2 and 2.3.1.3)
		return State{Verdict: AllowAll, Fetched: at, Expires: wholeSecond(now.Add(age(a.Header)))}
	}
}

// keepBody copies the part of the body that is read.
func keepBody(a Answer) []byte {
	body := asUTF8(a.Body)
	if a.Truncated || a.Broken || len(a.Body) > MaxBody {
		body = wholeLines(body)
	}
	return append([]byte{}, bound(body)...)
}

// unreachable follows RFC 9309, section 2.3.1.4: nothing is allowed, except by a body less than
// MaxAge old, and after GiveUp by whatever is known. A body must not be deposed by an outage of a
// minute, nor a site be closed for ever by one that never ends.
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

// wholeSecond is the first whole second that is not before t.
func wholeSecond(t time.Time) time.Time {
	if cut := t.Truncate(time.Second); cut.Before(t) {
		return cut.Add(time.Second)
	}
	return t
}

// Due reports whether robots.txt is to be asked for before another URL is. A site that asked for
// silence is not asked before NotBefore.
func (s *State) Due(now time.Time) bool {
	return s.Verdict == Unknown || !now.Before(s.Expires)
}

// Allowed reports whether the State admits a URL (path and query) for agent. It parses the body
// each time: who asks often keeps the Rules.
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

// Rules parses the body for agent; nil, which allows everything, where there is no body. Whether
// anything may be fetched at all is the Verdict's to say.
func (s *State) Rules(agent string) *Rules {
	if s.Body == nil {
		return nil
	}
	return Parse(s.Body, agent)
}

// age returns how long an answer holds by its Cache-Control, less the Age it came with, between
// MinAge and MaxAge.
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

// pause returns how long the answer's Retry-After asks to be left alone: a number of seconds, of
// which some give a fraction, or a date.
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

// seconds reads a whole number of seconds; what is none is otherwise, what is huge is MaxPause or
// more but no overflow.
func seconds(s string, otherwise time.Duration) time.Duration {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // any number of digits is a number (RFC 9110, 10.2.3), and n the largest there is
		return otherwise
	}
	return time.Duration(min(n, 1<<31)) * time.Second
}
