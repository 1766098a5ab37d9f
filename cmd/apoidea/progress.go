package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/apoidea/apoidea/node/control"
)

// waiter is the one method of a peer that progress needs.
type waiter interface {
	Wait(ctx context.Context, job string, fn func(control.Progress) error) error
}

// follow shows progress until the ring (or one job) is idle: a bar on a terminal, a plain line now and then elsewhere, and with JSON one
// document a line on out.
func follow(ctx context.Context, w waiter, job string, errOut io.Writer, quiet, asJSON bool, out io.Writer) error {
	var show func(control.Progress) error
	done := func() {}
	switch {
	case asJSON && !quiet:
		show = func(p control.Progress) error { return printLine(out, p) }
	case quiet:
		show = func(control.Progress) error { return nil }
	case isTerminal(errOut):
		show, done = bar(errOut)
	default:
		show = lines(errOut)
	}
	err := w.Wait(ctx, job, show)
	done()
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// lines prints a plain line every two seconds and at the end.
func lines(w io.Writer) func(control.Progress) error {
	var last time.Time
	var pace pace
	return func(p control.Progress) error {
		rate := pace.of(&p)
		if !p.Idle && time.Since(last) < 2*time.Second {
			return nil
		}
		last = time.Now()
		_, err := fmt.Fprintln(w, progressText(p, rate))
		return err
	}
}

// pace is the mean speed since progress was first looked at: what was there before says nothing of it.
type pace struct {
	known bool
	pages int64
	at    float64
}

func (s *pace) of(p *control.Progress) string {
	pages := p.Pages + p.Duplicates
	if !s.known {
		s.known, s.pages, s.at = true, pages, p.ElapseS
	}
	if p.ElapseS-s.at < 0.5 {
		return ""
	}
	return fmt.Sprintf(" (%.0f/s)", float64(pages-s.pages)/(p.ElapseS-s.at))
}

func progressText(p control.Progress, rate string) string {
	text := fmt.Sprintf("%s: %d pages%s, %d duplicates, %d errors; %d URLs seen, %d pending, %d leased; %d hosts, %d peers",
		seconds(p.ElapseS), p.Pages, rate, p.Duplicates, p.Errors, p.URLsSeen, p.URLsPending, p.URLsLeased, p.HostsOwned, p.Members)
	if p.URLsWaiting > 0 {
		text += fmt.Sprintf("; %d wait for another try, the next in %s", p.URLsWaiting, seconds(p.NextRetryS))
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
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond))
	b := p.AddBar(1, mpb.PrependDecorators(decor.CountersNoUnit("%d / %d URLs ")), mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
		mu.Lock()
		defer mu.Unlock()
		return text
	})))
	var pace pace
	show = func(pr control.Progress) error {
		mu.Lock()
		text = fmt.Sprintf("%d pages%s %d dup %d err %d hosts %d peers", pr.Pages, pace.of(&pr), pr.Duplicates, pr.Errors, pr.HostsOwned, pr.Members)
		if pr.URLsWaiting > 0 {
			text += fmt.Sprintf(", %d retry in %s", pr.URLsWaiting, seconds(pr.NextRetryS))
		}
		mu.Unlock()
		b.SetTotal(max(pr.URLsSeen, 1), pr.Idle)
		b.SetCurrent(pr.URLsSeen - pr.URLsPending - pr.URLsLeased)
		return nil
	}
	return show, func() {
		b.Abort(false)
		p.Wait()
	}
}
