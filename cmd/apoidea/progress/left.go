package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// mostLeft is the number of hosts in the summary.
const mostLeft = 5

// Left is what a crawl skipped as traps or over a limit.
type Left struct {
	// Hosts with skipped URLs, and the number of those URLs.
	Hosts int   `json:"hosts"`
	URLs  int64 `json:"urls"` // those that are known
	// Worst are the hosts with most of them, at most five.
	Worst []LeftHost `json:"worst"`
	// Options, with the same URLs, crawl the rest.
	Options string `json:"options"`
}

// LeftHost is a host with skipped URLs.
type LeftHost struct {
	Host  string `json:"host"`  // name
	Left  int64  `json:"left"`  // URLs that were left, as far as they are known
	Known int64  `json:"known"` // all URLs that are known
	Why   string `json:"why"`   // in words
	// Example is a URL that the rule of Why left.
	Example string `json:"example,omitempty"`
}

// leftOut finds the hosts with more skipped URLs than before; nil if there are none.
func leftOut(ctx context.Context, peer control.Backend, c *control.Counters, before map[string]int64, posted *control.Job) *Left {
	if c.Traps+c.OutOfBudget == 0 {
		return nil
	}
	l := new(Left)
	worst := func(a, b LeftHost) int { return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Host, b.Host)) }
	_ = peer.Hosts(ctx, true, func(h control.HostLine) error {
		if h.Left -= before[h.Host]; h.Left <= 0 {
			return nil
		}
		l.Hosts++
		l.URLs += h.Left
		l.Worst = append(l.Worst, LeftHost{Host: h.Host, Left: h.Left, Known: h.Seen})
		slices.SortFunc(l.Worst, worst)
		l.Worst = l.Worst[:min(len(l.Worst), mostLeft)]
		return nil
	})
	met, without := bounds(posted)
	rules, budgets := "", ""
	for i := range l.Worst {
		w := &l.Worst[i]
		w.Why = cmp.Or(met, "limit of the job")
		h, err := peer.Host(ctx, w.Host)
		if err != nil {
			continue
		}
		for k := range h.Jobs {
			j := &h.Jobs[k]
			if posted != nil && j.Job != posted.ID {
				continue
			}
			if j.Trap != "" {
				w.Why = j.Trap
				rules = " --trap-rules off"
			}
			for _, left := range j.Left {
				if left.Text == j.Trap {
					w.Example = left.Example
				}
			}
			if j.Spent != "" {
				w.Why, budgets = j.Spent, " --max-requests-per-host 0 --max-bytes-per-host 0 --again"
			}
		}
	}
	l.Options = strings.TrimSpace(without + rules + budgets)
	return l
}

// bounds returns the limits of a job, and the flags that remove them.
func bounds(j *control.Job) (met, without string) {
	if j == nil {
		return "", ""
	}
	for _, b := range []struct {
		flag string
		n    uint64
	}{{" --max-pages", j.Spec.MaxPages}, {" --max-bytes", j.Spec.MaxBytes}, {" --max-pages-per-host", j.Spec.MaxPagesPerHost}} {
		if b.n > 0 {
			met, without = met+fmt.Sprintf("%s %d", b.flag, b.n), without+b.flag+" 0"
		}
	}
	return strings.TrimSpace(met), without
}

// print lists the hosts and the options that crawl the rest.
func (l *Left) print(w io.Writer) error {
	if l == nil || l.Hosts == 0 {
		return nil
	}
	fmt.Fprintf(w, "skipped: %s on %s; most on\n", words.Counted(l.URLs, "URL"), words.Counted(int64(l.Hosts), "host"))
	for _, h := range l.Worst {
		if h.Example != "" {
			h.Why += ", such as " + h.Example
		}
		fmt.Fprintf(w, "  %s: %d of %d known URLs: %s\n", words.Legible(h.Host), h.Left, h.Known, words.Legible(h.Why))
	}
	text := "  details: apoidea host NAME"
	if l.Options != "" {
		text += "; to crawl the rest, crawl the same URLs with " + l.Options
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
