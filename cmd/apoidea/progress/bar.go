package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

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
