//go:build linux

// Command volunteer runs peers as a volunteer does at home, against webs on loopback that it serves
// itself: it changes limits and pauses while a peer crawls, leaves a ring without work, and has
// each governor crawl under a limit. It prints a line a figure, with its goal; the exit status is 1
// if one is missed.
//
// Bytes from sites are those that the peer's kernel acknowledged to the web, bytes to sites those
// that the web read. Bytes to and from peers are those that the kernel counted on the peers' TCP
// connections (ss), CPU time and memory those of the kernel as well.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// parts are what can be measured.
var parts = map[string]func(t *trial, ctx context.Context){
	"caps": (*trial).caps, "idle": (*trial).idle, "governors": (*trial).governors,
}

func main() {
	var t trial
	flag.IntVar(&t.ring, "ring", 32, "peers of the idle ring")
	flag.DurationVar(&t.span, "span", 30*time.Second, "how long each figure is measured")
	flag.StringVar(&t.names, "governors", "ours,paper,start-stop,none", "governors of part governors, separated by commas")
	only := flag.String("only", "caps,idle", "parts, separated by commas: caps, idle, governors")
	harness.Main(&t.work, func(ctx context.Context, _ []string) (bool, error) {
		for name := range strings.SplitSeq(*only, ",") {
			if parts[name] == nil {
				return false, fmt.Errorf("%w part %q", harness.ErrUsage, name)
			}
			if err := harness.Try(func() { parts[name](&t, ctx) }); err != nil {
				return false, err
			}
		}
		return !t.missed, nil
	})
}

// trial is one run of the program.
type trial struct {
	work   string
	ring   int
	span   time.Duration
	names  string // governors
	missed bool
}

// figure prints one figure beside its goal.
func (t *trial) figure(what, goal, measured string, ok bool) {
	word := "ok"
	if !ok {
		word, t.missed = "MISSED", true
	}
	fmt.Printf("%-62s %-16s %-16s %s\n", what, goal, measured, word)
}

// start runs a peer with its data in a directory of its own.
func (t *trial) start(ctx context.Context, name string, args ...string) *harness.Peer {
	p := harness.Must(harness.Start(ctx, t.work, name, []string{"GOMAXPROCS=2"}, slices.Concat([]string{
		"--quiet", "--allow-private", "--listen", "/ip4/127.0.0.1/tcp/0", "--lease-ttl", "8s",
	}, args)...))
	if _, err := p.Ready(ctx, false); err != nil {
		p.Kill()
		harness.Check(err)
	}
	return p
}
