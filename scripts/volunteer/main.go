//go:build linux

// Command volunteer runs a peer as somebody would at home, against a web on loopback that it serves
// itself, changes caps and pauses while the peer works, and prints what the other side saw of it: a
// line a figure, with the goal, and exit status 1 if one is missed.
//
// Bytes from sites are those that the peer's kernel acknowledged to the web, bytes to sites those
// that the web read; bytes to and from peers are those that the kernel counted on the peers' TCP
// connections (ss); processor time and memory are the kernel's as well. Nothing is asked of the
// peer about itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

func main() {
	var t trial
	flag.IntVar(&t.ring, "ring", 32, "peers of the idle ring")
	flag.DurationVar(&t.span, "span", 30*time.Second, "how long each figure is measured")
	only := flag.String("only", "", "caps or idle (default: both)")
	harness.Main(&t.work, func(ctx context.Context, _ []string) (bool, error) {
		var err error
		if *only != "idle" {
			err = t.caps(ctx)
		}
		if err == nil && *only != "caps" {
			err = t.idle(ctx)
		}
		return !t.missed, err
	})
}

// trial is one run of the script.
type trial struct {
	work   string
	ring   int
	span   time.Duration
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
func (t *trial) start(ctx context.Context, name string, args ...string) (*harness.Peer, error) {
	p, err := harness.Start(ctx, t.work, name, []string{"GOMAXPROCS=2"}, append([]string{
		"--quiet", "--allow-private", "--listen", "/ip4/127.0.0.1/tcp/0", "--lease-ttl", "8s",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	if _, err := p.Ready(ctx, false); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}
