// Bandwidth runs a peer under a cap against web servers of different speeds on loopback, once with
// each governor, and prints what the servers saw.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	apoidea, work string
	governors     string
	cap           int64
	servers       int
	median        float64
	warm, span    time.Duration
	seed          uint64
}

func main() {
	var o options
	flag.StringVar(&o.apoidea, "apoidea", "apoidea", "binary")
	flag.StringVar(&o.work, "work", os.TempDir(), "directory for the peers' data")
	flag.StringVar(&o.governors, "governors", "ours,paper,start-stop,none", "which to run, parted by commas")
	flag.Int64Var(&o.cap, "cap", 250_000, "bytes a second")
	flag.IntVar(&o.servers, "servers", 40, "web servers, each at an address of its own, up to 250")
	flag.Float64Var(&o.median, "median", 60_000, "median of the servers' rates, bytes a second")
	flag.DurationVar(&o.warm, "warm", 8*time.Second, "how long a peer crawls before it is measured")
	flag.DurationVar(&o.span, "span", 30*time.Second, "how long it is measured")
	flag.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same servers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bandwidth:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// figures are what the servers saw of a peer.
type figures struct {
	use, above, most float64
	governor         governor
}

// governor is what status says.
type governor struct {
	Admitted, Passed, Known int64
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
	m := newMeter()
	seeds, err := serve(ctx, m, o.servers, o.median, o.seed)
	if err != nil {
		return f, err
	}
	dir := filepath.Join(o.work, "peer-"+name)
	args := append([]string{
		"run", "--data-dir", dir, "--profile", "lab", "--allow-private", "--delay", "0s", "--bandwidth", strconv.FormatInt(o.cap, 10) + "B", "--governor", name,
		"--dashboard", "off", "--quiet",
	}, seeds...)
	peer := exec.CommandContext(ctx, o.apoidea, args...)
	peer.Stderr = os.Stderr
	peer.Cancel = func() error { return peer.Process.Signal(syscall.SIGTERM) }
	peer.WaitDelay = 20 * time.Second
	if err := peer.Start(); err != nil {
		return f, err
	}
	ended := make(chan error, 1)
	go func() { ended <- peer.Wait() }()
	select {
	case err := <-ended:
		return f, fmt.Errorf("the peer ended by itself: %w", errors.Join(err, ctx.Err()))
	case <-time.After(o.warm + o.span):
	}
	f.use, f.above, f.most = m.windows(o.warm, o.warm+o.span, o.cap)
	out, err := exec.CommandContext(ctx, o.apoidea, "status", "--json", "--data-dir", dir).Output()
	if err == nil {
		var status struct{ Governor governor }
		err = json.Unmarshal(out, &status)
		f.governor = status.Governor
	}
	cancel()
	<-ended
	return f, err
}
