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
	return func(p control.Progress) error {
		if !p.Idle && time.Since(last) < 2*time.Second {
			return nil
		}
		last = time.Now()
		_, err := fmt.Fprintln(w, progressText(p))
		return err
	}
}

func progressText(p control.Progress) string {
	rate := 0.0
	if p.ElapseS > 0 {
		rate = float64(p.Pages+p.Duplicates) / p.ElapseS
	}
	text := fmt.Sprintf("%s: %d pages (%.0f/s), %d duplicates, %d errors; %d URLs seen, %d pending, %d leased; %d hosts, %d peers",
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
	show = func(pr control.Progress) error {
		mu.Lock()
		rate := float64(pr.Pages+pr.Duplicates) / max(pr.ElapseS, 0.001)
		text = fmt.Sprintf("%d pages %.0f/s %d dup %d err %d hosts %d peers", pr.Pages, rate, pr.Duplicates, pr.Errors, pr.HostsOwned, pr.Members)
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
