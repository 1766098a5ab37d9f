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
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var t trial
	flag.StringVar(&t.binary, "apoidea", "apoidea", "the program")
	flag.StringVar(&t.work, "work", "", "directory for the peers")
	flag.IntVar(&t.ring, "ring", 32, "peers of the idle ring")
	flag.DurationVar(&t.span, "span", 30*time.Second, "how long each figure is measured")
	only := flag.String("only", "", "caps or idle (default: both)")
	flag.Parse()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"caps", t.caps}, {"idle", t.idle}} {
		if *only != "" && *only != part.name {
			continue
		}
		if err := part.run(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "volunteer: %s: %v\n", part.name, err)
			os.Exit(1)
		}
	}
	if t.missed > 0 {
		fmt.Printf("%d figures missed\n", t.missed)
		os.Exit(1)
	}
}

// trial is one run of the script.
type trial struct {
	binary, work string
	ring         int
	span         time.Duration
	missed       int
}

// figure prints one figure beside its goal.
func (t *trial) figure(what, goal, measured string, ok bool) {
	word := "ok"
	if !ok {
		word = "MISSED"
		t.missed++
	}
	fmt.Printf("%-62s %-16s %-16s %s\n", what, goal, measured, word)
}

// apoidea runs a command of the program to its end.
func (t *trial) apoidea(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, t.binary, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apoidea %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// peer is a running peer.
type peer struct {
	*exec.Cmd
	dir string
}

// start runs a peer with its data in a directory of its own.
func (t *trial) start(ctx context.Context, name string, args ...string) (*peer, error) {
	p := &peer{dir: filepath.Join(t.work, name)}
	args = append([]string{
		"run", "--data-dir", p.dir, "--quiet", "--allow-private", "--listen", "/ip4/127.0.0.1/tcp/0", "--lease-ttl", "8s",
	}, args...)
	p.Cmd = exec.CommandContext(ctx, t.binary, args...)
	p.Env = append(os.Environ(), "GOMAXPROCS=2")
	log, err := os.Create(filepath.Join(t.work, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.Stderr = log
	if err := p.Start(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.dir+".pid", fmt.Appendln(nil, p.Process.Pid), 0o600); err != nil {
		p.end()
		return nil, err
	}
	for range 600 {
		if t.apoidea(ctx, "status", "--data-dir", p.dir) == nil {
			return p, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			break
		}
	}
	p.end()
	return nil, errors.New(name + " does not answer")
}

// end ends a peer as a crash would: nothing of it is kept.
func (p *peer) end() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// addrs are the multiaddrs that a peer tells.
func (p *peer) addrs() ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(p.dir, "addrs"))
	return strings.Fields(string(raw)), err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
