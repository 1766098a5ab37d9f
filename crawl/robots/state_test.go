package robots_test

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/robots"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	closed = []byte("User-agent: *\nDisallow: /\n")
)

func header(fields ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

// What a fetch met and what follows: the cases of RFC 9309, section 2.3.1, by the names of the
// shared status.json.
func TestFromFetch(t *testing.T) {
	known := func(age time.Duration) *robots.State {
		return &robots.State{Verdict: robots.Obey, Body: closed, Fetched: noon.Add(-age), Expires: noon}
	}
	lost := func(since time.Duration, body []byte) *robots.State {
		return &robots.State{Verdict: robots.DisallowAll, Body: body, UnreachableSince: noon.Add(-since), Failures: 9}
	}
	refused := errors.New("connection refused")
	date := noon.Add(time.Hour).Format(http.TimeFormat)
	tests := []struct {
		name     string
		answer   robots.Answer
		previous *robots.State
		verdict  robots.Verdict
		holds    time.Duration
		silence  time.Duration
	}{
		{"st-200", robots.Answer{Status: 200, Body: closed}, nil, robots.Obey, 24 * time.Hour, 0},
		{"st-200-empty", robots.Answer{Status: 200}, nil, robots.Obey, 24 * time.Hour, 0},
		{"st-204", robots.Answer{Status: 204}, nil, robots.Obey, 24 * time.Hour, 0},
		{"st-301x6", robots.Answer{Status: 301}, nil, robots.AllowAll, 24 * time.Hour, 0},
		{"st-401", robots.Answer{Status: 401}, nil, robots.AllowAll, 24 * time.Hour, 0},
		{"st-403", robots.Answer{Status: 403}, nil, robots.AllowAll, 24 * time.Hour, 0},
		{"st-404", robots.Answer{Status: 404}, known(time.Hour), robots.AllowAll, 24 * time.Hour, 0},
		{"st-410", robots.Answer{Status: 410}, nil, robots.AllowAll, 24 * time.Hour, 0},
		{"st-429", robots.Answer{Status: 429, Header: header("Retry-After", "120")}, nil, robots.DisallowAll, 2 * time.Minute, 2 * time.Minute},
		{"429 without Retry-After", robots.Answer{Status: 429}, nil, robots.DisallowAll, time.Minute, time.Minute},
		{"429 with a body known", robots.Answer{Status: 429, Header: header("Retry-After", "120")}, known(time.Hour), robots.Obey, 2 * time.Minute, 2 * time.Minute},
		{"st-500", robots.Answer{Status: 500}, nil, robots.DisallowAll, 5 * time.Second, 0},
		{"st-503", robots.Answer{Status: 503, Header: header("Retry-After", date)}, nil, robots.DisallowAll, time.Hour, time.Hour},
		{"st-503-cached", robots.Answer{Status: 503}, known(time.Hour), robots.Obey, time.Minute, time.Minute},
		{"500 with a body known", robots.Answer{Status: 500}, known(time.Hour), robots.Obey, 5 * time.Second, 0},
		{"500 with a body known until just now", robots.Answer{Status: 500}, known(24*time.Hour - 2*time.Second), robots.Obey, 2 * time.Second, 0},
		{"500 with an old body known", robots.Answer{Status: 500}, known(25 * time.Hour), robots.DisallowAll, 5 * time.Second, 0},
		{"500 where there was no file", robots.Answer{Status: 500}, &robots.State{Verdict: robots.AllowAll, Fetched: noon}, robots.DisallowAll, 5 * time.Second, 0},
		{"st-503-30d", robots.Answer{Err: refused}, lost(30*24*time.Hour, nil), robots.AllowAll, 6 * time.Hour, 0},
		{"30 days with a body", robots.Answer{Err: refused}, lost(30*24*time.Hour, closed), robots.Obey, 6 * time.Hour, 0},
		{"29 days with a body", robots.Answer{Err: refused}, lost(29*24*time.Hour, closed), robots.DisallowAll, 6 * time.Hour, 0},
		{"st-timeout", robots.Answer{Err: refused}, nil, robots.DisallowAll, 5 * time.Second, 0},
		{"status of no class", robots.Answer{Status: 700}, nil, robots.DisallowAll, 5 * time.Second, 0},
		{"304 of a known body", robots.Answer{Status: 304}, known(25 * time.Hour), robots.Obey, 24 * time.Hour, 0},
		{"304 of nothing", robots.Answer{Status: 304}, nil, robots.DisallowAll, 5 * time.Second, 0},
		{"back again", robots.Answer{Status: 200, Body: closed}, lost(time.Hour, nil), robots.Obey, 24 * time.Hour, 0},
		{"st-cache", robots.Answer{Status: 200, Header: header("Cache-Control", "public, max-age=3600")}, nil, robots.Obey, time.Hour, 0},
		{"max-age of a week", robots.Answer{Status: 404, Header: header("Cache-Control", `max-age="604800"`)}, nil, robots.AllowAll, 24 * time.Hour, 0},
		{"max-age without end", robots.Answer{Status: 200, Header: header("Cache-Control", "max-age=99999999999999999999")}, nil, robots.Obey, 24 * time.Hour, 0},
		{"no-store", robots.Answer{Status: 200, Header: header("Cache-Control", "no-store")}, nil, robots.Obey, 5 * time.Minute, 0},
		{"max-age and Age", robots.Answer{Status: 200, Header: header("Cache-Control", "max-age=3600", "Age", "600")}, nil, robots.Obey, 50 * time.Minute, 0},
		{"Retry-After of a year", robots.Answer{Status: 503, Header: header("Retry-After", "31536000")}, nil, robots.DisallowAll, 24 * time.Hour, 24 * time.Hour},
		{"Retry-After in the past", robots.Answer{Status: 503, Header: header("Retry-After", "Sun, 01 Mar 2020 11:00:00 GMT")}, nil, robots.DisallowAll, 5 * time.Second, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := robots.FromFetch(tt.answer, noon, tt.previous) // within a second: TestWishesAreNotCut
			if s.Verdict != tt.verdict {
				t.Errorf("verdict %s, want %s", s.Verdict, tt.verdict)
			}
			if got := s.Expires.Sub(noon); got != tt.holds {
				t.Errorf("holds %s, want %s", got, tt.holds)
			}
			var silence time.Duration
			if !s.NotBefore.IsZero() {
				silence = s.NotBefore.Sub(noon)
			}
			if silence != tt.silence {
				t.Errorf("silence %s, want %s", silence, tt.silence)
			}
			if s.Due(noon) || !s.Due(s.Expires) {
				t.Error("is asked for at the wrong time")
			}
			wantAllowed := s.Verdict == robots.AllowAll || s.Verdict == robots.Obey && len(s.Body) == 0
			if got := s.Allowed("apoidea", "/x"); got != wantAllowed {
				t.Errorf("allowed %t, want %t", got, wantAllowed)
			}
		})
	}
	if never := (&robots.State{}); !never.Due(noon) || never.Allowed("apoidea", "/x") {
		t.Error("a file that was never asked for is not due, or allows")
	}
}

// A site that stays away is asked less and less often; one success forgets it.
func TestFailuresInARow(t *testing.T) {
	now := noon
	var s robots.State
	var waits []time.Duration
	for range 7 {
		s = robots.FromFetch(robots.Answer{Err: errors.New("timeout")}, now, &s)
		waits = append(waits, s.Expires.Sub(now))
		now = s.Expires
	}
	want := []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour}
	if !reflect.DeepEqual(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if s.UnreachableSince != noon || s.Failures != 7 {
		t.Errorf("%d failures since %s", s.Failures, s.UnreachableSince)
	}
	s = robots.FromFetch(robots.Answer{Status: 404}, now, &s)
	if s.Failures != 0 || !s.UnreachableSince.IsZero() {
		t.Errorf("%d failures since %s after a success", s.Failures, s.UnreachableSince)
	}
}

func TestBodyKept(t *testing.T) {
	line := "Disallow: /" + strings.Repeat("x", 88) + "\n"
	big := []byte("User-agent: *\n" + strings.Repeat(line, 6000))
	tests := []struct {
		name   string
		answer robots.Answer
		length int
	}{
		{"whole", robots.Answer{Status: 200, Body: closed}, len(closed)},
		{"over the bound", robots.Answer{Status: 200, Body: big}, 14 + (robots.MaxBody-14)/100*100},
		{"cut by the fetch", robots.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow: /"), Truncated: true}, 14},
		{"cut by the fetch, in UTF-16", robots.Answer{Status: 200, Body: []byte("\xff\xfe" + utf16le("User-agent: *\nDisallow: /") + "x"), Truncated: true}, 14},
		{"broken off", robots.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow: /"), Broken: true}, 14},
		{"over the bound, in UTF-16", robots.Answer{Status: 200, Body: []byte("\xff\xfe" + utf16le(string(big[:robots.MaxBody/2+100])))}, 14 + (robots.MaxBody/2+100-14)/100*100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := robots.FromFetch(tt.answer, noon, nil)
			if len(s.Body) != tt.length {
				t.Errorf("%d bytes kept, want %d", len(s.Body), tt.length)
			}
			if len(s.Body) > 0 && &s.Body[0] == &tt.answer.Body[0] {
				t.Error("the body is the answer's own")
			}
		})
	}
}

func TestStateRoundTrip(t *testing.T) {
	states := map[string]robots.State{
		"zero":        {},
		"no body":     {Verdict: robots.AllowAll, Fetched: noon, Expires: noon.Add(time.Hour)},
		"empty body":  {Verdict: robots.Obey, Fetched: noon, Home: true},
		"body":        {Verdict: robots.Obey, Fetched: noon, Length: robots.MaxBody, Home: true, Delay: robots.MaxCrawlDelay},
		"unreachable": {Verdict: robots.DisallowAll, Length: 7, NotBefore: noon, UnreachableSince: noon.Add(-time.Hour), Failures: 3},
	}
	for name, s := range states {
		t.Run(name, func(t *testing.T) {
			data, err := s.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			var got robots.State
			if err := got.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s) {
				t.Errorf("read back %+v, was %+v", got, s)
			}
			for n := range data {
				if err := new(robots.State).UnmarshalBinary(data[:n]); err == nil {
					t.Errorf("the first %d bytes of %d were accepted", n, len(data))
				}
			}
		})
	}
}

// Strangers send states: what is accepted is within bounds and is written again as it was read.
func FuzzState(f *testing.F) {
	for _, s := range []robots.State{
		{},
		{Verdict: robots.Obey, Length: 7, Home: true, Delay: time.Second, Fetched: noon, Expires: noon},
		{Verdict: robots.DisallowAll, NotBefore: noon, UnreachableSince: noon, Failures: 7},
	} {
		data, err := s.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{1, 1, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s robots.State
		if err := s.UnmarshalBinary(data); err != nil {
			if !reflect.DeepEqual(s, robots.State{}) {
				t.Error("a refused state left something behind")
			}
			return
		}
		if s.Body != nil || s.Length > robots.MaxBody || s.Delay > robots.MaxCrawlDelay {
			t.Fatalf("%+v", s)
		}
		again, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var s2 robots.State
		if err := s2.UnmarshalBinary(again); err != nil || !reflect.DeepEqual(s, s2) {
			t.Errorf("read back %+v (%v), was %+v", s2, err, s)
		}
	})
}

// FuzzFromFetch: whatever a site answers, one fetch of robots.txt comes to a State that can be
// kept, holds within its bounds and keeps what was known.
func FuzzFromFetch(f *testing.F) {
	f.Add(200, "", "", "", closed)
	f.Add(200, "max-age=60, no-cache", "99999999999999999999", "", []byte{})
	f.Add(404, "max-age=\"9223372036854775807\"", "-1", "", closed)
	f.Add(429, "", "", "99999999999999999999", closed)
	f.Add(503, "private,max-age", "1", "Fri, 31 Dec 9999 23:59:59 GMT", []byte("\xff\xfeD\x00"))
	f.Add(304, ",,=", "", "1.0000001", closed)
	f.Fuzz(func(t *testing.T, status int, cache, age, retry string, body []byte) {
		answer := robots.Answer{Status: status, Header: header("Cache-Control", cache, "Age", age, "Retry-After", retry), Body: body}
		for _, before := range []*robots.State{nil, {Verdict: robots.Obey, Body: closed, Fetched: noon.Add(-time.Hour), Expires: noon}} {
			s := robots.FromFetch(answer, noon, before)
			if holds := s.Expires.Sub(noon); holds < time.Second || holds > robots.MaxAge {
				t.Errorf("it holds for %v", holds)
			}
			if s.Verdict == robots.Unknown || len(s.Body) > robots.MaxBody || s.NotBefore.After(s.Expires) {
				t.Errorf("%v of %d bytes, silence until %v, holds until %v", s.Verdict, len(s.Body), s.NotBefore, s.Expires)
			}
			raw, err := s.MarshalBinary()
			var again robots.State
			if err == nil {
				err = again.UnmarshalBinary(raw)
			}
			if err != nil || again.Verdict != s.Verdict || !again.Expires.Equal(s.Expires) {
				t.Errorf("%+v is kept as %+v, %v", s, again, err)
			}
		}
	})
}
