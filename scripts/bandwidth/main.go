//go:build linux

// Bandwidth runs a peer under a cap against web servers of different speeds on loopback, once with
// each governor, and prints what the servers saw.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/scripts/harness/meter"
)

type options struct {
	work       string
	governors  string
	cap        int64
	servers    int
	median     float64
	warm, span time.Duration
	seed       uint64
}

func main() {
	var o options
	flag.StringVar(&o.governors, "governors", "ours,paper,start-stop,none", "which to run, parted by commas")
	flag.Int64Var(&o.cap, "cap", 250_000, "bytes a second")
	flag.IntVar(&o.servers, "servers", 40, "web servers, each at an address of its own, up to 250")
	flag.Float64Var(&o.median, "median", 60_000, "median of the servers' rates, bytes a second")
	flag.DurationVar(&o.warm, "warm", 8*time.Second, "how long a peer crawls before it is measured")
	flag.DurationVar(&o.span, "span", 30*time.Second, "how long it is measured")
	flag.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same servers")
	harness.Main(&o.work, func(ctx context.Context, _ []string) (bool, error) { return o.run(ctx) })
}

// figures are what the servers saw of a peer.
type figures struct {
	use, above, most float64
	governor         control.Governor
}

func (o *options) run(ctx context.Context) (ok bool, err error) {
	ok = true
	fmt.Printf("%-12s %8s %14s %14s %17s %8s\n", "governor", "use", "windows_above", "fullest", "order_violations", "known")
	for name := range strings.SplitSeq(o.governors, ",") {
		f, err := o.measure(ctx, name)
		if err != nil {
			return false, fmt.Errorf("governor %s: %w", name, err)
		}
		share := func(n int64) string {
			if f.governor.Admitted == 0 {
				return "-"
			}
			return strconv.FormatFloat(float64(n)/float64(f.governor.Admitted), 'f', 3, 64)
		}
		fmt.Printf("%-12s %8.3f %14.4f %14.3f %17s %8s\n", name, f.use, f.above, f.most, share(f.governor.Passed), share(f.governor.Known))
		if name == "ours" && (f.use < 0.95 || f.above > 0) {
			ok = false
		}
	}
	return ok, nil
}

// measure runs one peer.
func (o *options) measure(ctx context.Context, name string) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.warm+o.span+time.Minute)
	defer cancel()
	m := meter.New()
	seeds, err := serve(ctx, m, o.servers, o.median, o.seed)
	if err != nil {
		return f, err
	}
	peer, err := harness.Start(ctx, o.work, "peer-"+name, nil, append([]string{
		"--profile", "lab", "--allow-private", "--delay", "0s", "--bandwidth", strconv.FormatInt(o.cap, 10) + "B", "--governor", name, "--dashboard", "off", "--quiet",
	}, seeds...)...)
	if err != nil {
		return f, err
	}
	defer peer.Kill()
	begun := time.Now()
	select {
	case <-peer.Done:
		return f, errors.Join(peer.Ended(), ctx.Err())
	case <-time.After(o.warm + o.span):
	}
	from, to := begun.Add(o.warm), begun.Add(o.warm+o.span)
	down, _ := m.Between(from, to)
	f.use = float64(down) / o.span.Seconds() / float64(o.cap)
	most, above := m.Windows(from, to, o.cap*102/100)
	f.most, f.above = float64(most)/float64(o.cap), above
	status, err := peer.Client.Status(ctx, false)
	if err == nil && status.Governor != nil {
		f.governor = *status.Governor
	}
	return f, err
}
