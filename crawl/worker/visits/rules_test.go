package visits

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/robots"
)

// TestLentStates: of what an owner says of a robots.txt holds what this worker made itself, and
// otherwise what asks for less; nothing of it opens a site, nor closes one for more than a day.
func TestLentStates(t *testing.T) {
	const (
		longAgo = -40 * 24 * time.Hour
		forEver = 100 * 365 * 24 * time.Hour
	)
	now := time.Unix(1e9, 0)
	body := []byte("User-agent: *\nAllow: /")
	for _, tt := range []struct {
		name         string
		state        robots.State
		own          bool
		want         robots.Verdict
		until, quiet time.Duration
	}{
		{"its own", robots.State{Verdict: robots.Obey, Body: body, Fetched: now, Expires: now.Add(time.Hour)}, true, robots.Obey, time.Hour, 0},
		{"rules of another", robots.State{Verdict: robots.Obey, Body: body, Fetched: now, Expires: now.Add(time.Hour)}, false, robots.Unknown, 0, 0},
		{"no rules", robots.State{Verdict: robots.AllowAll, Fetched: now, Expires: now.Add(time.Hour)}, false, robots.Unknown, 0, 0},
		{
			"rules of before an outage",
			robots.State{Verdict: robots.Obey, Body: body, Fetched: now, Expires: now.Add(time.Minute), UnreachableSince: now, Failures: 2},
			false,
			robots.Unknown, 0, 0,
		},
		{
			"a wish for silence",
			robots.State{Verdict: robots.Obey, Body: body, Fetched: now, Expires: now.Add(time.Hour), NotBefore: now.Add(time.Minute), UnreachableSince: now, Failures: 1},
			false, robots.Obey, time.Minute, time.Minute,
		},
		{"out of reach", robots.State{Verdict: robots.DisallowAll, Expires: now.Add(time.Hour), UnreachableSince: now, Failures: 4}, false, robots.DisallowAll, time.Hour, 0},
		{"out of reach for so long that all is allowed next", robots.State{
			Verdict: robots.DisallowAll, Body: body, Expires: now.Add(longAgo), UnreachableSince: now.Add(longAgo), Failures: 40,
		}, false, robots.DisallowAll, longAgo, 0},
		{"closed for ever", robots.State{Verdict: robots.DisallowAll, Expires: now.Add(forEver), NotBefore: now.Add(forEver), Failures: 1}, false, robots.DisallowAll, robots.MaxPause, robots.MaxPause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shelf{learnt: aging.New[digest, struct{}](10, nil)}
			o := &origin{name: "http://a.example"}
			raw, err := tt.state.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if tt.own {
				s.learn(o, raw)
			}
			got, encoded := s.lent(now, o, raw)
			if (encoded == nil) != (tt.want == robots.Unknown) || got.Verdict != tt.want {
				t.Fatalf("%v, %d bytes; want %v", got.Verdict, len(encoded), tt.want)
			}
			if tt.want == robots.Unknown {
				return
			}
			if !got.Expires.Equal(now.Add(tt.until)) || tt.quiet > 0 != got.NotBefore.Equal(now.Add(tt.quiet)) {
				t.Errorf("until %v, silent until %v", got.Expires.Sub(now), got.NotBefore.Sub(now))
			}
			if tt.own {
				return
			}
			if got.Body != nil || got.Failures != tt.state.Failures {
				t.Errorf("body %q, %d failures", got.Body, got.Failures)
			}
			if next := robots.FromFetch(robots.Answer{Err: errCrossHost}, now, &got); next.Verdict != robots.DisallowAll {
				t.Errorf("when the file cannot be had then, the verdict is %v", next.Verdict)
			}
		})
	}
	other := &origin{name: "http://b.example"}
	s := shelf{learnt: aging.New[digest, struct{}](10, nil)}
	raw, _ := (&robots.State{Verdict: robots.AllowAll, Fetched: now, Expires: now.Add(time.Hour)}).MarshalBinary()
	s.learn(other, raw)
	if _, encoded := s.lent(now, &origin{name: "http://a.example"}, raw); encoded != nil {
		t.Error("what was read of one site holds for another")
	}
	for _, broken := range [][]byte{nil, []byte("none"), raw[:2]} {
		if _, encoded := s.lent(now, other, broken); encoded != nil {
			t.Errorf("%q was taken", broken)
		}
	}
}
