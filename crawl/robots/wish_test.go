package robots_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/robots"
)

// What a site asks for is never cut: neither when an answer comes within a second, nor on the way
// through a store or over the wire.
func TestWishesAreNotCut(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		status  int
		fields  []string
		silence time.Duration // asked for
		holds   time.Duration
	}{
		"seconds":                {429, []string{"Retry-After", "7"}, 7 * time.Second, 7 * time.Second},
		"a fraction":             {503, []string{"Retry-After", "7.2"}, 7200 * time.Millisecond, 7200 * time.Millisecond},
		"digits beyond a number": {429, []string{"Retry-After", "1000000000000000000000000000"}, day, day},
		"none":                   {503, nil, time.Minute, time.Minute},
		"max-age":                {200, []string{"Cache-Control", "max-age=900"}, 0, 15 * time.Minute},
		"an error":               {500, nil, 0, 5 * time.Second},
	} {
		for _, part := range []time.Duration{0, time.Nanosecond, 400 * time.Millisecond, time.Second - 1} {
			now := noon.Add(part)
			s := robots.FromFetch(robots.Answer{Status: test.status, Header: header(test.fields...)}, now, nil)
			for _, state := range []robots.State{s, stored(t, s)} {
				if state.NotBefore.Sub(now) < test.silence && test.silence > 0 || state.NotBefore.Sub(now) >= test.silence+2*time.Second {
					t.Errorf("%s, %v into a second: silence for %v, asked for %v", name, part, state.NotBefore.Sub(now), test.silence)
				}
				if left := state.Expires.Sub(now); left < test.holds || left >= test.holds+2*time.Second {
					t.Errorf("%s, %v into a second: asked again after %v, not %v", name, part, left, test.holds)
				}
				if state.Due(now.Add(test.holds - time.Nanosecond)) {
					t.Errorf("%s, %v into a second: due before its time", name, part)
				}
			}
		}
	}
	// A State that another made, with times of its own.
	s := robots.State{Verdict: robots.DisallowAll, Expires: noon.Add(time.Millisecond), NotBefore: noon.Add(time.Second + 1), Fetched: noon.Add(time.Second / 2)}
	got := stored(t, s)
	if got.Expires.Before(s.Expires) || got.NotBefore.Before(s.NotBefore) || got.Fetched.After(s.Fetched) {
		t.Errorf("stored %v, %v, %v; had %v, %v, %v", got.Expires, got.NotBefore, got.Fetched, s.Expires, s.NotBefore, s.Fetched)
	}
}

// A date is the site's own second: not asked before it, whatever second ours is in.
func TestDatesAreNotCut(t *testing.T) {
	at := noon.Add(time.Minute)
	for _, part := range []time.Duration{0, 1, 999 * time.Millisecond} {
		now := noon.Add(part)
		s := robots.FromFetch(robots.Answer{Status: 503, Header: header("Retry-After", at.Format(http.TimeFormat))}, now, nil)
		if got := stored(t, s); got.NotBefore.Before(at) || got.Expires.Before(at) {
			t.Errorf("%v into a second: silence until %v, asked for until %v", part, got.NotBefore, at)
		}
	}
}

// A delay too large for any number is a large delay, and not none.
func TestHugeCrawlDelay(t *testing.T) {
	for _, value := range []string{"1e400", "1e9", "99999999999999999999999999", "+Inf"} {
		d, ok := robots.Parse([]byte("User-agent: *\nCrawl-delay: "+value+"\n"), "apoidea").CrawlDelay()
		if !ok || d != robots.MaxCrawlDelay {
			t.Errorf("Crawl-delay %s: %v, %v", value, d, ok)
		}
	}
}

func stored(t *testing.T, s robots.State) (got robots.State) {
	t.Helper()
	raw, err := s.MarshalBinary()
	if err == nil {
		err = got.UnmarshalBinary(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}
