package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// Lister is what is asked for hosts of which something was left.
type Lister interface {
	Hosts(ctx context.Context, ring bool, fn func(control.HostLine) error) error // lists hosts
	Host(ctx context.Context, host string) (*control.Host, error)                // tells all that is known of one
}

// mostLeft is how many hosts are named at the end of a crawl.
const mostLeft = 5

// Left is what a crawl left out, as it took it for endless or for too much.
type Left struct {
	// Hosts of which URLs were left, and those URLs that are known.
	Hosts int   `json:"hosts"`
	URLs  int64 `json:"urls"` // those that are known
	// Worst are the hosts with most of them, at most five.
	Worst []LeftHost `json:"worst"`
}

// LeftHost is a host of which URLs were left.
type LeftHost struct {
	Host  string `json:"host"`  // name
	Left  int64  `json:"left"`  // URLs that were left, as far as they are known
	Known int64  `json:"known"` // all URLs that are known
	// AtLeast is how many more there are if what was left leads to as much as what was fetched.
	AtLeast int64  `json:"at_least"`
	Why     string `json:"why"` // in words
}

// leftOut looks for the hosts of which URLs were left, nil if there is none. What cannot be asked
// is not told.
func leftOut(ctx context.Context, peer Lister, c *control.Counters) *Left {
	if c.Traps+c.OutOfBudget == 0 {
		return nil
	}
	l := new(Left)
	worst := func(a, b LeftHost) int { return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Host, b.Host)) }
	_ = peer.Hosts(ctx, true, func(h control.HostLine) error {
		if h.Left == 0 {
			return nil
		}
		l.Hosts++
		l.URLs += h.Left
		l.Worst = append(l.Worst, LeftHost{Host: h.Host, Left: h.Left, Known: h.Seen, AtLeast: more(&h)})
		slices.SortFunc(l.Worst, worst)
		l.Worst = l.Worst[:min(len(l.Worst), mostLeft)]
		return nil
	})
	for i := range l.Worst {
		w := &l.Worst[i]
		h, err := peer.Host(ctx, w.Host)
		if err != nil {
			continue
		}
		for k := range h.Jobs {
			w.Why = cmp.Or(h.Jobs[k].Trap, h.Jobs[k].Spent, w.Why, "the job may have no more of it")
		}
	}
	return l
}

// more is how many URLs those lead to that were left, if they lead to as many as the others did.
func more(h *control.HostLine) int64 {
	fetched := h.Seen - h.Left
	if fetched <= 0 {
		return 0
	}
	return h.Left * h.Seen / fetched
}

// print names the hosts, and says how to go on there.
func (l *Left) print(w io.Writer) error {
	if l == nil || l.Hosts == 0 {
		return nil
	}
	fmt.Fprintf(w, "left out: %d URLs of %s; most of them of\n", l.URLs, count(l.Hosts, "host"))
	for _, h := range l.Worst {
		fmt.Fprintf(w, "  %s: %d of %d known URLs, which may lead to %d more: %s\n", words.Legible(h.Host), h.Left, h.Known, h.AtLeast, words.Legible(h.Why))
	}
	_, err := fmt.Fprintf(w, "  `apoidea host NAME` tells more; to crawl such a host whole: apoidea run --novelty 0 --max-requests-per-host 0 --max-bytes-per-host 0 --again http://%s/\n", words.Legible(l.Worst[0].Host))
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
