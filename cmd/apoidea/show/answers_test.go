package show

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// TestAnswers: each kind of answer as people read it.
func TestAnswers(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	until := at.Add(90 * time.Minute)
	job := control.Job{ID: "3f2a", State: "running", Spec: control.JobSpec{URLs: []string{"http://a/", "http://b/", "http://c/"}, MaxPages: 7}}
	job.Accepted, job.Outcomes = 9, map[string]int64{"ok": 4, "timeout": 0}
	limits := &control.Limits{Settings: []control.Setting{{Key: volunteer.KeyQuotaDay, Value: "2GB", Default: "none"}}}
	for name, c := range map[string]struct {
		show func(out io.Writer) error
		want string
	}{
		"jobs":                     {func(out io.Writer) error { return Jobs(out, []control.Job{job}) }, "3f2a  running  unknown  9     0     0        0       http://a/ and 2 more\n"},
		"job":                      {func(out io.Writer) error { return Job(out, &job) }, "max pages  7\n  ok       4\n"},
		"a job that is not signed": {func(out io.Writer) error { return Job(out, &control.Job{Poster: "12D3"}) }, "posted by  12D3 (not signed)\n"},
		"job keys": {func(out io.Writer) error {
			list := []control.Job{{ID: "3f2a", Poster: "12D3a", Signed: true}, {ID: "4b", Poster: "12D3b", Signed: true}, {ID: "5c", Poster: "12D3a"}}
			return JobKeys(out, KeysOf(&control.JobKey{ID: "12D3a"}, list))
		}, "3f2a      12D3a      this peer\n4b        12D3b      peers with this key\n5c        12D3a      any peer (not signed)\n"},
		"why": {func(out io.Writer) error {
			return Why(out, &control.Why{URL: "http://a/", Host: "a", Owner: "p", Jobs: []control.WhyLine{{Job: "3f2a", Text: "pending"}}})
		}, "job 3f2a  pending\n"},
		"opted out": {func(out io.Writer) error {
			return OptOutCheck(out, &control.OptOutCheck{OptedOut: true, Reasons: []string{"x", "y"}})
		}, "opted out: x; y\n"},
		"opt-outs":    {func(out io.Writer) error { return OptOuts(out, &control.OptOuts{Domains: []string{"a.example"}}) }, "stored for the ring  domain a.example\n"},
		"no opt-outs": {func(out io.Writer) error { return OptOuts(out, &control.OptOuts{}) }, "none  "},
		"limits":      {func(out io.Writer) error { return Limits(out, limits, at) }, "quota-day  2GB"},
		"what holds": {func(out io.Writer) error {
			held := control.Limits{Paused: true, Holds: []control.Hold{{Rule: "schedule", Effect: "pause", Why: "it is day", Ends: "night", Until: until}}}
			_, err := io.WriteString(out, Holds(&held, at))
			return err
		}, "paused: it is day, until night (13:30:00, in 1h30m0s)"},
	} {
		var b strings.Builder
		if err := c.show(&b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v\n%s\nwant in it\n%s", name, err, b.String(), c.want)
		}
	}
}

// TestChanged checks that a change of limits is printed with the old and the new value, and the end
// of a pause as such.
func TestChanged(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	limits := func(bandwidth string, holds ...control.Hold) *control.Limits {
		return &control.Limits{Paused: len(holds) > 0, Holds: holds, Settings: []control.Setting{{Key: "bandwidth", Value: bandwidth}, {Key: "fetchers", Value: "8"}}}
	}
	user := control.Hold{Rule: "user", Effect: "pause", Why: "paused by hand", Ends: "resume"}
	night := control.Hold{Rule: "schedule", Effect: "pause", Why: "it is day", Ends: "night"}
	for name, c := range map[string]struct {
		before, after *control.Limits
		set           map[string]string
		want          string
	}{
		"set":                  {limits("0"), limits("2Mbit"), map[string]string{"bandwidth": "2Mbit"}, "bandwidth: 2Mbit (was 0)"},
		"set as it was":        {limits("0"), limits("0"), map[string]string{"bandwidth": "0"}, "bandwidth: 0 (unchanged)"},
		"set under a schedule": {limits("0", night), limits("2Mbit", night), map[string]string{"bandwidth": "2Mbit"}, "bandwidth: 2Mbit (was 0)\npaused: it is day, until night"},
		"pause":                {limits("0"), limits("0", user), nil, "paused by hand, until resume"},
		"resume":               {limits("0", user), limits("0"), nil, "Resumed."},
		"resume of no pause":   {limits("0"), limits("0"), nil, "No pause to end."},
		"resume in a schedule": {limits("0", user, night), limits("0", night), nil, "Resumed.\npaused: it is day, until night"},
	} {
		if got := Changed(c.before, c.after, c.set, at); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
