package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
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
	// Command crawls the rest: the same command without the limits that were reached.
	Command string `json:"command"`
}

// LeftHost is a host with skipped URLs.
type LeftHost struct {
	Host  string `json:"host"`  // name
	Left  int64  `json:"left"`  // URLs that were left, as far as they are known
	Known int64  `json:"known"` // all URLs that are known
	// AtLeast estimates further URLs, if skipped URLs link to as many as fetched ones.
	AtLeast int64  `json:"at_least"`
	Why     string `json:"why"` // in words
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
		l.Worst = append(l.Worst, LeftHost{Host: h.Host, Left: h.Left, Known: h.Seen, AtLeast: more(&h)})
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
	l.Command = commandLine() + without + rules + budgets
	if posted == nil && len(l.Worst) > 0 {
		l.Command += " http://" + l.Worst[0].Host + "/"
	}
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

// commandLine returns the running command as shell input, without the secrets of --header and
// --proxy. Flags can be appended: the last one counts.
func commandLine() string {
	var line strings.Builder
	line.WriteString("apoidea")
	for i, arg := range args[1:] {
		flag, _, valued := strings.Cut(arg, "=")
		switch {
		case args[i] == "--header", args[i] == "--proxy":
			arg = "..."
		case valued && (flag == "--header" || flag == "--proxy"):
			arg = flag + "=..."
		}
		line.WriteString(" " + words.ShellQuote(arg))
	}
	return line.String()
}

var args = os.Args // a test replaces them

// more estimates the URLs behind the skipped ones.
func more(h *control.HostLine) int64 {
	fetched := h.Seen - h.Left
	if fetched <= 0 {
		return 0
	}
	return h.Left * h.Seen / fetched
}

// print lists the hosts and the command that crawls the rest.
func (l *Left) print(w io.Writer) error {
	if l == nil || l.Hosts == 0 {
		return nil
	}
	fmt.Fprintf(w, "skipped: %s on %s; most on\n", words.Counted(l.URLs, "URL"), words.Counted(int64(l.Hosts), "host"))
	for _, h := range l.Worst {
		if h.Example != "" {
			h.Why += ", such as " + h.Example
		}
		fmt.Fprintf(w, "  %s: %d of %d known URLs, possibly %d more: %s\n", words.Legible(h.Host), h.Left, h.Known, h.AtLeast, words.Legible(h.Why))
	}
	_, err := fmt.Fprintf(w, "  details: apoidea host NAME; to crawl the rest: %s\n", words.Legible(l.Command))
	return err
}
