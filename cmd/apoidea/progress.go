package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// waiter is the one method of a peer that progress needs.
type waiter interface {
	Wait(ctx context.Context, job string, patience time.Duration, fn func(control.Progress) error) error
}

// follow shows progress until the ring (or one job) has nothing to do within a patience: a bar on a terminal, a plain line now and then elsewhere, and with JSON one
// document a line on out.
func follow(ctx context.Context, w waiter, job string, patience time.Duration, errOut io.Writer, quiet, asJSON bool, out io.Writer) error {
	var show func(control.Progress) error
	done := func() {}
	switch {
	case asJSON && !quiet:
		show = func(p control.Progress) error { return words.Line(out, p) }
	case quiet:
		show = func(control.Progress) error { return nil }
	case isTerminal(errOut):
		show, done = bar(errOut)
	default:
		show = lines(errOut)
	}
	err := w.Wait(ctx, job, patience, show)
	done()
	return err
}

// isTerminal reports whether a bar can be drawn on w: a terminal that knows how wide it is.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return false
	}
	width, _, err := cwriter.New(f).GetTermSize()
	return err == nil && width > 0
}

// lineEvery is how often a plain line is printed, and sameEvery how often while it says the same as the last.
const (
	lineEvery = 2 * time.Second
	sameEvery = time.Minute
)

// lines prints a plain line now and then and at the end.
func lines(w io.Writer) func(control.Progress) error {
	var pace pace
	last, said := math.Inf(-1), ""
	return func(p control.Progress) error {
		rate := pace.of(&p)
		gap, says := lineEvery, fmt.Sprint(p.Pages, p.Duplicates, p.Redirects, p.Errors, p.URLsSeen, p.URLsPending, p.URLsLeased, p.URLsPutOff, p.Members, p.Note)
		if says == said {
			gap = sameEvery
		}
		if !p.Idle && p.ElapseS-last < gap.Seconds() {
			return nil
		}
		last, said = p.ElapseS, says
		_, err := fmt.Fprintln(w, progressText(p, rate))
		return err
	}
}

// paceWindow is the time over which speed is measured.
const paceWindow = 10 * time.Second

// pace is the speed of late: over the last ten seconds, or since progress was first looked at.
type pace struct {
	marks []paceMark // oldest first, the first at most a window old
}

type paceMark struct {
	at    float64
	pages int64
}

func (s *pace) of(p *control.Progress) string {
	now := paceMark{p.ElapseS, p.Pages + p.Duplicates}
	s.marks = append(s.marks, now)
	for len(s.marks) > 2 && now.at-s.marks[1].at >= paceWindow.Seconds() {
		s.marks = s.marks[1:]
	}
	first := s.marks[0]
	if now.at-first.at < 0.5 {
		return ""
	}
	return fmt.Sprintf(" (%.0f/s)", float64(now.pages-first.pages)/(now.at-first.at))
}

func progressText(p control.Progress, rate string) string {
	text := fmt.Sprintf("%s: %d pages%s, %d duplicates, %d errors; %d URLs seen, %d pending, %d leased; %d hosts, %d peers",
		words.Seconds(p.ElapseS), p.Pages, rate, p.Duplicates, p.Errors, p.URLsSeen, p.URLsPending, p.URLsLeased, p.HostsOwned, p.Members)
	if p.URLsWaiting > 0 {
		text += fmt.Sprintf("; %d wait for another try, the next in %s", p.URLsWaiting, words.Seconds(p.NextRetryS))
	}
	text += show.Waits(p.Waits)
	if p.URLsPutOff > 0 {
		text += fmt.Sprintf("; %d put off", p.URLsPutOff)
	}
	if p.Idle {
		text += "; idle"
	} else if p.Note != "" {
		text += "; " + p.Note
	}
	return text
}

// bar draws a progress bar: URLs done of URLs seen, a total that grows as links are found.
func bar(w io.Writer) (show func(control.Progress) error, done func()) {
	var mu sync.Mutex // guards text between the peer's reports and the painter
	text := "starting"
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(64), mpb.WithRefreshRate(200*time.Millisecond))
	b := p.New(0, mpb.BarStyle().Lbound("").Filler("█").Tip("").Padding("░").Rbound(""),
		mpb.BarWidth(24),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d URLs ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return " " + text
		})))
	var pace pace
	show = func(pr control.Progress) error {
		mu.Lock()
		text = barText(pr, pace.of(&pr))
		mu.Unlock()
		b.SetTotal(max(pr.URLsSeen, 1), false)
		b.SetCurrent(max(0, pr.URLsSeen-pr.URLsPending-pr.URLsLeased))
		if pr.Idle {
			b.SetTotal(-1, true)
		}
		return nil
	}
	return show, func() {
		b.Abort(false)
		p.Wait()
	}
}

// barText is what stands behind the bar: short, since the line must not be wider than the terminal.
func barText(p control.Progress, rate string) string {
	text := fmt.Sprintf("%d pages%s", p.Pages+p.Duplicates, rate)
	if p.Errors > 0 {
		text += ", " + words.Counted(p.Errors, "error")
	}
	switch {
	case p.Idle:
		text += ", done"
	case p.URLsWaiting > 0 && p.URLsWaiting == p.URLsPending && p.URLsLeased == 0:
		text += fmt.Sprintf(", %d retry in %s", p.URLsWaiting, words.Seconds(p.NextRetryS))
	}
	return text
}
