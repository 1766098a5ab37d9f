// Package progress follows a crawl to its end: bars or lines, a summary, and an explanation if no
// page was fetched.
package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Screen is the output of progress: a bar on Err if it is a terminal, else plain lines; with JSON
// one document per line on Out; with Quiet nothing.
type Screen struct {
	Out, Err    io.Writer // Out takes results, Err what is of use only now
	Quiet, JSON bool      // as the flags of that name
}

// Follow shows progress until the ring, or one job, has nothing to do within the patience.
func Follow(ctx context.Context, w control.Backend, job string, patience time.Duration, s Screen) error {
	var tell func(control.Progress) error
	done := func() {}
	switch {
	case s.JSON && !s.Quiet:
		tell = func(p control.Progress) error { return words.Line(s.Out, p) }
	case s.Quiet:
		tell = func(control.Progress) error { return nil }
	case canDraw(s.Err):
		tell, done = bar(s.Err)
	default:
		tell = lines(s.Err)
	}
	err := w.Wait(ctx, job, patience, tell)
	done()
	return err
}

// canDraw reports whether a line on w may be redrawn: w is a terminal with a known width, not a
// dumb one, and NO_COLOR (no-color.org) is not set. Nothing else here may print escape codes.
func canDraw(w io.Writer) bool {
	return words.Width(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// lineEvery is the interval of plain lines, and sameEvery that of unchanged ones.
const (
	lineEvery = 2 * time.Second
	sameEvery = time.Minute
)

// lines prints plain lines at intervals and at the end.
func lines(w io.Writer) func(control.Progress) error {
	var pace pace
	last, said := math.Inf(-1), ""
	return func(p control.Progress) error {
		rate := pace.of(&p)
		gap, says := lineEvery, fmt.Sprint(p.Pages, p.Duplicates, p.Redirects, p.Errors, p.URLsSeen, p.URLsPending, p.URLsLeased, p.URLsPutOff, p.Checks, p.Members, p.Note)
		for i := range p.Waits {
			says += " " + p.Waits[i].Reason
		}
		if says == said {
			gap = sameEvery
		}
		ending := p.Outstanding() == 0 && p.Note == "" // the last report follows
		if !p.Idle && (ending || p.ElapseS-last < gap.Seconds()) {
			return nil
		}
		last, said = p.ElapseS, says
		_, err := fmt.Fprintln(w, progressText(p, rate))
		return err
	}
}

// paceWindow is the window of the rate.
const paceWindow = 10 * time.Second

// pace is the rate over the last window, and at the end that since the first report.
type pace struct {
	marks []paceMark // oldest first, the first at most a window old
	begin paceMark
}

type paceMark struct {
	at    float64
	pages int64
}

func (s *pace) of(p *control.Progress) string {
	now := paceMark{p.ElapseS, p.Pages}
	s.marks = append(s.marks, now)
	s.begin = cmp.Or(s.begin, now)
	for len(s.marks) > 2 && now.at-s.marks[1].at >= paceWindow.Seconds() {
		s.marks = s.marks[1:]
	}
	first := s.marks[0]
	if p.Idle {
		first = s.begin
	}
	if now.at-first.at < 0.5 {
		return ""
	}
	return fmt.Sprintf(" (%.0f/s)", float64(now.pages-first.pages)/(now.at-first.at))
}

func progressText(p control.Progress, rate string) string {
	text := fmt.Sprintf("%s: %d pages%s, %d duplicates, %d errors; %d of %d URLs left", words.Seconds(p.ElapseS), p.Pages, rate, p.Duplicates, p.Errors, p.URLsPending+p.URLsLeased, p.URLsSeen)
	if p.URLsWaiting > 0 && len(p.Waits) == 0 {
		text += fmt.Sprintf("; retries: %d, next in %s", p.URLsWaiting, words.Seconds(p.NextRetryS))
	}
	text += show.Waits(p.Waits, p.Pages == 0)
	if p.URLsPutOff > 0 {
		text += fmt.Sprintf("; %d deferred", p.URLsPutOff)
	}
	if p.Checks > 0 {
		text += fmt.Sprintf("; %d pages to be checked", p.Checks)
	}
	if p.Idle {
		text += "; done"
	} else if p.Note != "" {
		text += "; " + p.Note
	}
	return words.Singular(text)
}
