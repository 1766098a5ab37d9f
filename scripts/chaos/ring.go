package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// ring is a directory of peers, commanded by `apoidea cluster` and asked over their sockets.
type ring struct {
	dir   string
	space string // network namespace that its peers live in; "" for that of this process
	names map[string]int
}

// apoidea runs a command of the product; what it says goes into the error if it fails.
func apoidea(ctx context.Context, space string, args ...string) error {
	cmd := command(ctx, space, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apoidea %s: %w: %s", strings.Join(args[:min(2, len(args))], " "), err, harness.LastLine(out))
	}
	return nil
}

func command(ctx context.Context, space string, args ...string) *exec.Cmd {
	words := append([]string{"apoidea"}, args...)
	if space != "" {
		words = append([]string{"ip", "netns", "exec", space}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (r *ring) cluster(ctx context.Context, verb string, args ...string) error {
	return apoidea(ctx, r.space, append([]string{"cluster", verb, "--dir", r.dir}, args...)...)
}

// up starts peers 1 to n and learns their names.
func (r *ring) up(ctx context.Context, n int, args ...string) error {
	if err := r.cluster(ctx, "up", append([]string{"-n", strconv.Itoa(n)}, args...)...); err != nil {
		return err
	}
	return r.learn(ctx, n)
}

func (r *ring) learn(ctx context.Context, n int) error {
	for i := len(r.names) + 1; i <= n; i++ {
		s, err := r.status(ctx, i)
		if err != nil {
			return fmt.Errorf("peer %d: %w", i, err)
		}
		if r.names == nil {
			r.names = make(map[string]int)
		}
		r.names[s.Peer] = i
	}
	return nil
}

func (r *ring) peerDir(i int) string { return filepath.Join(r.dir, "peer"+strconv.Itoa(i)) }

// client asks peer i.
func (r *ring) client(i int) *control.Client { return control.NewClient(harness.Socket(r.peerDir(i))) }

// askFor bounds the wait for one answer of a peer.
const askFor = 10 * time.Second

// ask asks peer i one thing.
func ask[T any](ctx context.Context, r *ring, i int, call func(cl *control.Client, ctx context.Context) (T, error)) (T, error) {
	cl := r.client(i)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return call(cl, ctx)
}

func (r *ring) status(ctx context.Context, i int) (*control.Status, error) {
	return ask(ctx, r, i, func(cl *control.Client, ctx context.Context) (*control.Status, error) { return cl.Status(ctx, false) })
}

// walk goes round the ring from peer i.
func (r *ring) walk(ctx context.Context, i int) (*control.Ring, error) {
	return ask(ctx, r, i, (*control.Client).Ring)
}

// closed waits until peer i walks a closed ring of n, and says how long that took.
func (r *ring) closed(ctx context.Context, i, n int, within time.Duration) (time.Duration, error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := "no answer"
	for {
		w, err := r.walk(ctx, i)
		switch {
		case err == nil && w.Closed && len(w.Members) == n:
			return time.Since(begin), nil
		case err == nil:
			last = fmt.Sprintf("%d of %d members, %s", len(w.Members), n, w.Error)
		case ctx.Err() == nil:
			last = err.Error()
		}
		if harness.Sleep(ctx, 200*time.Millisecond) != nil {
			return within, fmt.Errorf("ring not closed after %v: %s", within, last)
		}
	}
}

// order lists the peers' numbers round the ring, beginning with peer i.
func (r *ring) order(ctx context.Context, i int) ([]int, error) {
	w, err := r.walk(ctx, i)
	if err != nil {
		return nil, err
	}
	var order []int
	for _, m := range w.Members {
		order = append(order, r.names[m.Peer])
	}
	return order, nil
}

// hosts lists the hosts of the ring.
func (r *ring) hosts(ctx context.Context, i int) (lines []control.HostLine, err error) {
	return ask(ctx, r, i, func(cl *control.Client, ctx context.Context) ([]control.HostLine, error) {
		err := cl.Hosts(ctx, true, func(h control.HostLine) error {
			lines = append(lines, h)
			return nil
		})
		return lines, err
	})
}

// jobOwner is the peer that keeps the first job, 0 if that is not known.
func (r *ring) jobOwner(ctx context.Context, i int) int {
	jobs, err := ask(ctx, r, i, (*control.Client).Jobs)
	if err != nil || len(jobs) == 0 {
		return 0
	}
	return r.names[jobs[0].Owner]
}

func (r *ring) pid(i int) (int, error) {
	raw, err := os.ReadFile(filepath.Join(r.peerDir(i), "peer.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(raw)))
}

// signal sends the signal to all the peers, as much at once as can be.
func (r *ring) signal(sig syscall.Signal, peers ...int) error {
	var pids []int
	for _, i := range peers {
		pid, err := r.pid(i)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	var errs []error
	for _, pid := range pids {
		errs = append(errs, syscall.Kill(pid, sig))
	}
	return errors.Join(errs...)
}

// end kills what still runs.
func (r *ring) end() {
	for i := 1; ; i++ {
		if _, err := os.Stat(r.peerDir(i)); err != nil {
			return
		}
		pid, err := r.pid(i)
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(cmdline), r.peerDir(i)+"\x00") { // process IDs are used again
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// cpu is the processor time that peers 1 to n have used.
func (r *ring) cpu(n int) (time.Duration, error) {
	sum := time.Duration(0)
	for i := 1; i <= n; i++ {
		pid, err := r.pid(i)
		if err != nil {
			return 0, err
		}
		used, err := harness.CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
