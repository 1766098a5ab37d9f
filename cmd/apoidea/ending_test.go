package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/node/control"
)

// because is a ring with one job, and one reason for every URL.
type because struct {
	control.Backend
	line control.WhyLine
	job  control.Job
}

func (b because) Why(_ context.Context, url string) (*control.Why, error) {
	return &control.Why{URL: url, Jobs: []control.WhyLine{b.line}}, nil
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
		"blocked":            {map[string]int64{"blocked_address": 1}, one, "blocked_address", "no page fetched: http://a/: done: blocked_address; --allow-private", exitRefused},
		"robots.txt":         {map[string]int64{"robots_denied": 1}, one, "robots_denied", "no page fetched: http://a/: done: robots_denied\n", exitDone},
		"refused connection": {map[string]int64{"connect": 1}, one, "connect", "no page fetched: http://a/: done: connect", exitFailed},
		"two of them":        {map[string]int64{"connect": 1, "robots_denied": 1}, two, "connect", "no page fetched: http://a/: done: connect (1 more seed: ", exitFailed},
		"put off":            {nil, one, "", "no page fetched: http://a/: done: ", exitFailed},
	} {
		ring := because{line: control.WhyLine{Outcome: c.outcome, Text: "done: " + c.outcome}, job: control.Job{Spec: control.JobSpec{URLs: c.seeds}}}
		ring.job.Outcomes = c.outcomes
		for _, n := range c.outcomes {
			ring.job.Done += n
		}
		var out bytes.Buffer
		err := progress.ExplainNothing(t.Context(), ring, "job", &out)
		if err != nil {
			out.WriteString(err.Error())
		}
		if !strings.HasPrefix(out.String(), c.want) || c.want == "" && out.Len() > 0 || exitCode(err) != c.code {
			t.Errorf("%s: %q, exit code %d, want %q, %d", name, out.String(), exitCode(err), c.want, c.code)
		}
	}
}
