package progress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// ruledAs are outcomes of pages excluded by a rule, answeredAs those of responses without a page.
var (
	ruledAs    = []string{"robots_denied", "opted_out", "out_of_scope", "out_of_budget"}
	answeredAs = []string{"none", "redirect", "http_error", "trap", "too_many_redirects"}
)

// ExplainNothing explains a job that fetched no page by the outcome of its first seed. It returns
// an error, unless a rule of the sites or of the job excluded all URLs.
func ExplainNothing(ctx context.Context, e control.Backend, job string, w io.Writer) error {
	j, err := e.Job(ctx, job)
	if err != nil || len(j.Spec.URLs) == 0 || j.Fetched() > 0 {
		return nil //nolint:nilerr // a hint that is not to be had
	}
	why, err := e.Why(ctx, j.Spec.URLs[0])
	if err != nil {
		return fmt.Errorf("no page fetched: why %s: %w", j.Spec.URLs[0], err)
	}
	text, outcome := why.Text, ""
	if len(why.Jobs) > 0 {
		last := why.Jobs[len(why.Jobs)-1]
		text, outcome = last.Text, last.Outcome
	}
	text = why.URL + ": " + words.Legible(text)
	ruled := j.Done > 0 && sumOf(j.Outcomes, ruledAs) == j.Done
	if more := len(j.Spec.URLs) - 1; more > 0 && !ruled && outcome != blocked {
		text += fmt.Sprintf(" (%s: apoidea why URL)", words.Counted(int64(more), "more seed"))
	}
	return nothing(text, outcome, ruled, w)
}

// blocked is the outcome of addresses rejected by the address guard.
const blocked = "blocked_address"

// nothing returns an error with the reason, or prints it to w if a rule excluded all URLs.
func nothing(why, outcome string, ruled bool, w io.Writer) error {
	why = "no page fetched: " + why
	switch {
	case outcome == blocked:
		return control.Refused(why + "; --allow-private permits loopback and private addresses")
	case ruled:
		_, err := fmt.Fprintln(w, why)
		return err
	default:
		return errors.New(why)
	}
}

// explainRest does the same for a crawl without a posted job.
func (c *Crawl) explainRest(ctx context.Context, w io.Writer) error {
	r, err := c.peer.Ring(ctx)
	if err != nil {
		return nil //nolint:nilerr // a hint that is not to be had
	}
	n := outcomes(r)
	var ended int64
	for name, before := range c.outcomes.Outcomes {
		n.Outcomes[name] -= before
	}
	maps.DeleteFunc(n.Outcomes, func(_ string, count int64) bool { return count <= 0 })
	for _, count := range n.Outcomes {
		ended += count
	}
	if n.Fetched()+sumOf(n.Outcomes, answeredAs) > 0 || ended == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(n.Outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.Outcomes[b], n.Outcomes[a]), cmp.Compare(a, b))
	})
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("%s (%s)", name, words.Counted(n.Outcomes[name], "URL"))
	}
	return nothing("the remaining URLs ended as "+strings.Join(list, ", ")+"; to list them: apoidea export urls", names[0], sumOf(n.Outcomes, ruledAs) == ended, w)
}

// outcomes adds up the outcomes of all jobs of a ring.
func outcomes(r *control.Ring) (sum control.JobCounts) {
	sum.Outcomes = make(map[string]int64)
	for i := range r.Members {
		for k := range r.Members[i].Jobs {
			sum.Add(&r.Members[i].Jobs[k])
		}
	}
	return sum
}

func sumOf(outcomes map[string]int64, names []string) (n int64) {
	for _, name := range names {
		n += outcomes[name]
	}
	return n
}

// Finish records that a job is done, unless it has deferred URLs. Errors are ignored.
func Finish(ctx context.Context, peer control.Backend, job string) {
	_, _ = peer.SetJob(ctx, job, "finish")
}

// Crawl counts what a ring crawls from its creation.
type Crawl struct {
	peer   control.Backend
	before control.Counters
	// outcomes are the earlier outcomes of all URLs.
	outcomes control.JobCounts
	left     map[string]int64 // by host, before
}

// Begin reads the counters of the ring.
func Begin(ctx context.Context, peer control.Backend) (*Crawl, error) {
	r, err := peer.Ring(ctx)
	if err != nil {
		return nil, err
	}
	c := &Crawl{peer: peer, outcomes: outcomes(r)}
	for i := range r.Members {
		c.before.Add(&r.Members[i].Counters)
	}
	if c.before.Traps+c.before.OutOfBudget > 0 {
		c.left = make(map[string]int64)
		_ = peer.Hosts(ctx, true, func(h control.HostLine) error {
			if h.Left > 0 {
				c.left[h.Host] = h.Left
			}
			return nil
		})
	}
	return c, nil
}

// End follows the crawl until the whole ring, or only the posted job, has nothing to do within the
// patience. It returns a result and an error for a job that fetched nothing; if a rule excluded all
// URLs, it prints the reason to hints instead.
func (c *Crawl) End(ctx context.Context, posted *control.Job, whole bool, patience time.Duration, screen Screen, hints io.Writer) (*Ran, error) {
	followed := ""
	if posted != nil && !whole {
		followed = posted.ID
	}
	if err := Follow(ctx, counting{c.peer, c.before}, followed, patience, screen); err != nil {
		return nil, err
	}
	s, err := c.peer.Status(ctx, true)
	if err != nil {
		return nil, err
	}
	ran := &Ran{Status: s, Run: since(&s.Counters, &c.before)}
	ran.Left = leftOut(ctx, c.peer, &ran.Run, c.left, posted)
	if posted == nil {
		return ran, c.explainRest(ctx, hints)
	}
	if ran.Finished = c.finished(ctx, posted, ran); ran.Finished != nil {
		return ran, nil
	}
	Finish(ctx, c.peer, posted.ID)
	return ran, ExplainNothing(ctx, c.peer, posted.ID, hints)
}

// finished returns the posted job if it was done before. While records are being transferred this
// is unknown; then it is a job without remaining work.
func (c *Crawl) finished(ctx context.Context, posted *control.Job, ran *Ran) *control.Job {
	if Finished(posted) != "" {
		return posted
	}
	if !posted.Continued || !ran.empty() {
		return nil
	}
	j, err := c.peer.Job(ctx, posted.ID)
	if err != nil || j.Fetched() == 0 {
		return nil
	}
	if j.Continued = true; Finished(j) == "" {
		return nil
	}
	return j
}

// Posted describes the result of posting a job.
func Posted(j *control.Job) string {
	if text := Finished(j); text != "" {
		return text
	}
	return "job " + j.ID + map[bool]string{true: " continued", false: " posted"}[j.Continued]
}

// Finished describes a job that had finished before and is not crawled again, else it is empty.
func Finished(j *control.Job) string {
	if !j.Continued || j.State != control.JobDone {
		return ""
	}
	text := "finished"
	if j.Finished != nil {
		text += " on " + j.Finished.Local().Format(time.DateTime)
	}
	text += fmt.Sprintf(", nothing left to fetch: %d pages, %d duplicates", j.Outcomes["ok"], j.Outcomes["duplicate"])
	if n := j.Outcomes["noindex"]; n > 0 {
		text += fmt.Sprintf(", %d not archived (noindex)", n)
	}
	return words.Singular(text) + "; --again repeats it (job " + j.ID + ")"
}

// counting subtracts the counters of earlier runs and other jobs.
type counting struct {
	control.Backend
	before control.Counters
}

// Wait implements control.Backend.
func (c counting) Wait(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error {
	return c.Backend.Wait(ctx, job, patience, func(p control.Progress) error {
		if job == "" {
			p.Counters = since(&p.Counters, &c.before)
		}
		return fn(p)
	})
}

// since returns the counters after before. URLs pending then belong to the later part.
func since(now, before *control.Counters) control.Counters {
	c := *now
	earlier := [...]int64{before.Pages, before.Bytes, before.Duplicates, before.NoIndex, before.Redirects, before.Errors, before.RobotsDenied, before.Refetched, before.Traps, before.OutOfBudget, before.LinksCut, before.URLsSeen - before.URLsPending - before.URLsLeased}
	for i, n := range [...]*int64{&c.Pages, &c.Bytes, &c.Duplicates, &c.NoIndex, &c.Redirects, &c.Errors, &c.RobotsDenied, &c.Refetched, &c.Traps, &c.OutOfBudget, &c.LinksCut, &c.URLsSeen} {
		*n = max(0, *n-max(0, earlier[i])) // a member that went away took its counts along
	}
	return c
}

// Ran is the status of the ring at the end of a command, with the counters since its start.
type Ran struct {
	*control.Status
	// Run has the counters since.
	Run control.Counters `json:"run"`
	// Left are the hosts with skipped URLs, the worst first.
	Left *Left `json:"left,omitempty"`
	// Finished is the job with the same parameters that had finished before.
	Finished *control.Job `json:"finished,omitempty"`
}

// empty reports whether the run had no outcome.
func (s *Ran) empty() bool {
	return s.Run.Pages+s.Run.Duplicates+s.Run.Redirects+s.Run.Errors+s.Run.RobotsDenied == 0
}

// Print prints the summary of a run: outcomes, archive, deferred URLs, further lines, all runs.
func (s *Ran) Print(w io.Writer, archive string, more ...string) error {
	if s.Finished != nil {
		if _, err := fmt.Fprintln(w, Finished(s.Finished)); err != nil || s.empty() {
			return errors.Join(err, show.PutOff(w, s.Status))
		}
	}
	again := ""
	if s.Run.Refetched > 0 {
		again = fmt.Sprintf("%d fetched again, ", s.Run.Refetched)
		if s.Run != s.Counters {
			again = "at least " + again // what was under way at an interruption has no outcome
		}
	}
	if _, err := fmt.Fprintf(w, "%s, %s%s; WARC files in %s\n", show.Outcome(&s.Run), again, words.Bytes(s.Run.Bytes), archive); err != nil {
		return err
	}
	if err := errors.Join(s.Left.print(w), show.PutOff(w, s.Status)); err != nil {
		return err
	}
	if s.Run != s.Counters {
		more = append(more, fmt.Sprintf("all runs: %s, %s; pages in flight at an interruption may have been fetched twice and are not counted", show.Outcome(&s.Counters), words.Bytes(s.Bytes)))
	}
	for _, line := range more {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
