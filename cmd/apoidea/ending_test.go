package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

// because is a ring with one job, and one reason for every URL.
type because struct {
	control.WhyLine
	job control.Job
}

func (b because) Why(_ context.Context, url string) (*control.Why, error) {
	return &control.Why{URL: url, Jobs: []control.WhyLine{b.WhyLine}}, nil
}

func (b because) Job(context.Context, string) (*control.Job, error) { return &b.job, nil }

func TestExplainNothing(t *testing.T) {
	one, two := []string{"http://a/"}, []string{"http://a/", "http://b/"}
	for name, c := range map[string]struct {
		outcomes map[string]int64
		seeds    []string
		outcome  string
		want     string
		code     int
	}{
		"pages":              {map[string]int64{"ok": 1, "connect": 3}, one, "ok", "", exitDone},
		"only known pages":   {map[string]int64{"duplicate": 1}, one, "ok", "", exitDone},
		"no seeds":           {nil, nil, "", "", exitDone},
		"blocked":            {map[string]int64{"blocked_address": 1}, one, "blocked_address", "no page was fetched. http://a/: done: blocked_address; --allow-private permits addresses of this machine and its networks", exitRefused},
		"robots.txt":         {map[string]int64{"robots_denied": 1}, one, "robots_denied", "no page was fetched. http://a/: done: robots_denied\n", exitDone},
		"refused connection": {map[string]int64{"connect": 1}, one, "connect", "no page was fetched. http://a/: done: connect", exitFailed},
		"two of them":        {map[string]int64{"connect": 1, "robots_denied": 1}, two, "connect", "no page was fetched. http://a/: done: connect (and 1 more seeds: apoidea why URL)", exitFailed},
		"put off":            {nil, one, "", "no page was fetched. http://a/: done: ", exitFailed},
	} {
		ring := because{control.WhyLine{Outcome: c.outcome, Text: "done: " + c.outcome}, control.Job{Spec: control.JobSpec{URLs: c.seeds}}}
		ring.job.Outcomes = c.outcomes
		for _, n := range c.outcomes {
			ring.job.Done += n
		}
		var out bytes.Buffer
		err := explainNothing(t.Context(), ring, "job", &out)
		if err != nil {
			out.WriteString(err.Error())
		}
		if out.String() != c.want || exitCode(err) != c.code {
			t.Errorf("%s: %q, exit code %d, want %q, %d", name, out.String(), exitCode(err), c.want, c.code)
		}
	}
}

// TestSecondRunCountsForItself: what earlier runs counted is neither in the progress nor in the sum of a later one, and is told apart from it.
func TestSecondRunCountsForItself(t *testing.T) {
	before := control.Counters{Pages: 100, Duplicates: 10, URLsSeen: 130, URLsPending: 15, URLsLeased: 5, Bytes: 1 << 20}
	now := progressAt(1, 140, true)
	now.Duplicates, now.URLsSeen, now.Bytes = 12, 200, 2<<20
	var seen control.Counters
	if err := (counting{told{now}, before}).Wait(t.Context(), "", 0, func(p control.Progress) error {
		seen = p.Counters
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen.Pages != 40 || seen.Duplicates != 2 || seen.URLsSeen != 90 {
		t.Errorf("counted since: %+v", seen)
	}
	ended := ranStatus{&control.Status{Counters: now.Counters}, seen}
	var b strings.Builder
	if err := errors.Join(printEnding(&b, &ended, "here"), printEarlier(&b, &ended)); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.HasPrefix(text, "40 pages, 2 duplicates") || !strings.Contains(text, "with earlier ones the ring has 140 pages, 12 duplicates") {
		t.Errorf("printed:\n%s", text)
	}
	b.Reset()
	ended.Run = ended.Counters
	if err := printEarlier(&b, &ended); err != nil || b.Len() > 0 {
		t.Errorf("of a first run: %v\n%s", err, b.String())
	}
	if gone := since(&control.Counters{Pages: 7}, &before); gone.Pages != 0 {
		t.Errorf("a member that went took its counts along: %+v", gone)
	}
}
