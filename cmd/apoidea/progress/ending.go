package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// Explainer is what is asked when a crawl fetched nothing.
type Explainer interface {
	Job(ctx context.Context, id string) (*control.Job, error)
	Why(ctx context.Context, url string) (*control.Why, error)
}

// fetchedAs are the outcomes of a page that was fetched, ruledAs those by which a rule kept it from being asked for at all.
var (
	fetchedAs = []string{"ok", "duplicate", "too_large"}
	ruledAs   = []string{"robots_denied", "opted_out", "out_of_scope", "out_of_budget"}
)

// ExplainNothing says of a job that fetched no page what became of its first seed. That is an error, by which scripts can tell it from success, unless the
// sites or the job's own bounds would have it so.
func ExplainNothing(ctx context.Context, e Explainer, job string, w io.Writer) error {
	j, err := e.Job(ctx, job)
	if err != nil || len(j.Spec.URLs) == 0 || sumOf(j.Outcomes, fetchedAs) > 0 {
		return nil //nolint:nilerr // a hint that is not to be had
	}
	why, err := e.Why(ctx, j.Spec.URLs[0])
	if err != nil {
		return fmt.Errorf("no page was fetched; why %s: %w", j.Spec.URLs[0], err)
	}
	text, outcome := why.Text, ""
	if len(why.Jobs) > 0 {
		last := why.Jobs[len(why.Jobs)-1]
		text, outcome = last.Text, last.Outcome
	}
	text = "no page was fetched. " + why.URL + ": " + words.Legible(text)
	switch {
	case outcome == "blocked_address":
		return control.Refused(text + "; --allow-private permits addresses of this machine and its networks")
	case j.Done > 0 && sumOf(j.Outcomes, ruledAs) == j.Done:
		_, err = fmt.Fprintln(w, text)
		return err
	case len(j.Spec.URLs) > 1:
		text += fmt.Sprintf(" (and %d more seeds: apoidea why URL)", len(j.Spec.URLs)-1)
	}
	return errors.New(text)
}

func sumOf(outcomes map[string]int64, names []string) (n int64) {
	for _, name := range names {
		n += outcomes[name]
	}
	return n
}

// Counting is a crawl that is followed from here on: what the ring counted before, in earlier runs and for other jobs, is taken off.
type Counting struct {
	Waiter
	// Before is what the ring had counted.
	Before control.Counters
}

// Wait implements Waiter.
func (c Counting) Wait(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error {
	return c.Waiter.Wait(ctx, job, patience, func(p control.Progress) error {
		if job == "" {
			p.Counters = since(&p.Counters, &c.Before)
		}
		return fn(p)
	})
}

// since is what was counted after before. URLs that were still to be done then belong to what came after.
func since(now, before *control.Counters) control.Counters {
	c := *now
	for _, n := range []struct {
		now    *int64
		before int64
	}{
		{&c.Pages, before.Pages},
		{&c.Bytes, before.Bytes},
		{&c.Duplicates, before.Duplicates},
		{&c.Redirects, before.Redirects},
		{&c.Errors, before.Errors},
		{&c.RobotsDenied, before.RobotsDenied},
		{&c.Refetched, before.Refetched},
		{&c.URLsSeen, before.URLsSeen - before.URLsPending - before.URLsLeased},
	} {
		*n.now = max(0, *n.now-max(0, n.before)) // a member that went away took its counts along
	}
	return c
}

// Ran is the status of the ring at the end of a command, and beside it what was counted since its beginning.
type Ran struct {
	*control.Status
	// Run is what was counted since.
	Run control.Counters `json:"run"`
}

// NewRan takes off a status what was counted before.
func NewRan(s *control.Status, before *control.Counters) *Ran {
	return &Ran{Status: s, Run: since(&s.Counters, before)}
}

// Ending sums up a run.
func Ending(w io.Writer, s *Ran, archive string) error {
	_, err := fmt.Fprintf(w, "%s, %d fetched again, %s; WARC files in %s\n", show.Outcome(&s.Run), s.Run.Refetched, words.Bytes(s.Run.Bytes), archive)
	return err
}

// Earlier tells what the ring counted in earlier runs, too, if there were any.
func Earlier(w io.Writer, s *Ran) error {
	if s.Run == s.Counters {
		return nil
	}
	_, err := fmt.Fprintf(w, "that was this run; with earlier ones the ring has %s, %s\n", show.Outcome(&s.Counters), words.Bytes(s.Bytes))
	return err
}
