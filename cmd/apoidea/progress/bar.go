package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// barCells is the length of the bar, and barEvery its minimum redraw interval.
const (
	barCells = 24
	barEvery = 200 * time.Millisecond
)

// lineShare is the part of the time so far that passes at least until the next plain line.
const lineShare = 20 // a twentieth

// Line shows a changing text: one line that is drawn over on a terminal, else plain lines, the more
// rarely the longer it takes. Done removes the line of a terminal. Show is safe for concurrent use.
func Line(w io.Writer) (show func(text string), done func()) {
	terminal := canDraw(w)
	begin := time.Now()
	var mu sync.Mutex // guards last
	var last time.Time
	show = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		every := max(lineEvery, now.Sub(begin)/lineShare)
		if terminal {
			every = barEvery
		}
		if now.Sub(last) < every {
			return
		}
		last = now
		if terminal {
			fmt.Fprint(w, "\r\x1b[K"+text)
			return
		}
		fmt.Fprintln(w, text)
	}
	return show, func() {
		if terminal {
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}

// bar draws a progress bar: URLs done of URLs seen, a total that grows as links are found.
func bar(w io.Writer) (show func(control.Progress) error, done func()) {
	var pace pace
	var painted time.Time
	show = func(p control.Progress) error {
		text := barText(p, pace.of(&p))
		if !p.Idle && time.Since(painted) < barEvery {
			return nil
		}
		painted = time.Now()
		seen := max(p.URLsSeen, 1)
		done := min(max(0, p.URLsSeen-p.URLsPending-p.URLsLeased), seen)
		cells := int(barCells * done / seen)
		if p.Idle {
			cells = barCells
		}
		line := []rune(fmt.Sprintf("%d/%d URLs %s%s %s", done, seen, strings.Repeat("█", cells), strings.Repeat("░", barCells-cells), text))
		if width := words.Width(w); width > 0 {
			line = line[:min(len(line), width-1)]
		}
		_, err := fmt.Fprintf(w, "\r%s\x1b[K", string(line))
		return err
	}
	return show, func() {
		if !painted.IsZero() {
			fmt.Fprintln(w)
		}
	}
}

// barText is the short text after the bar.
func barText(p control.Progress, rate string) string {
	text := words.Singular(fmt.Sprintf("%d pages%s", p.Pages, rate))
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
