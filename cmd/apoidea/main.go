// Command apoidea runs a peer of a decentralized web crawler, and inspects and controls peers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/logs"
	"github.com/apoidea/apoidea/node/ops/words"
)

// The exit codes of every command (design, section 8).
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitNoPeer  = 3
	exitTimeout = 4
	exitRefused = 5
)

func main() {
	logs.Capture(logs.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: logs.Truncate}))) // until a command sets its own
	ctx, stop := interruptible()
	cmd, err := newRoot().ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil && !errors.Is(err, errInterrupted) {
		err = errInterrupted
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apoidea:", errorText(cmd, err))
	}
	os.Exit(exitCode(err))
}

// errorText is an error for people. One of usage begins so, and names its flag as it is typed.
func errorText(cmd *cobra.Command, err error) string {
	if exitCode(err) != exitUsage {
		return words.Error(err)
	}
	text := strings.TrimPrefix(words.Error(err), errUsage.Error()+": ")
	if name, _, _ := strings.Cut(text, " "); name != "config" && cmd.Flags().Lookup(strings.TrimSuffix(name, ":")) != nil {
		text = "--" + text
	}
	return errUsage.Error() + ": " + text
}

// errInterrupted ends a command that was interrupted before it was done.
var errInterrupted = errors.New("interrupted")

// twiceAfter separates a second interrupt from one delivered twice, to the process and its group.
const twiceAfter = 300 * time.Millisecond

// errTerminated is the cause of an end by SIGTERM or SIGHUP: the peer keeps its records, while an
// interrupted one leaves its ring.
var errTerminated = errors.New("terminated")

// interruptible returns a context that is canceled by the first signal, with its cause. The second
// signal exits immediately, which is safe: acknowledged data is on disk.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(context.Background())
	cancel := func() { cancelCause(nil) }
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		if <-signals == os.Interrupt {
			cancelCause(errInterrupted)
		} else {
			cancelCause(errTerminated)
		}
		awaitSecond(signals, time.Now())
		fmt.Fprintln(os.Stderr, "apoidea: stopped immediately; the next start resumes from the data directory")
		os.Exit(exitFailed)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// awaitSecond returns when there is an interrupt that is not the echo of the first.
func awaitSecond(signals <-chan os.Signal, first time.Time) {
	for range signals {
		if time.Since(first) >= twiceAfter {
			return
		}
	}
}

// exitCode is the one place where errors become exit codes.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUsage):
		return exitUsage
	}
	switch control.KindOf(err) {
	case control.KindUsage:
		return exitUsage
	case control.KindNoPeer:
		return exitNoPeer
	case control.KindTimeout:
		return exitTimeout
	case control.KindRefused:
		return exitRefused
	default:
		return exitFailed
	}
}
