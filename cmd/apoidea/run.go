package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
	"github.com/apoidea/apoidea/node/lab/cluster"
	"github.com/apoidea/apoidea/node/ops/words"
)

// gcPercent is the GOGC of a peer unless it is set: the live heap is some ten megabytes, so
// collecting half as often costs little memory.
const gcPercent = 200

type runOptions struct {
	*globals
	peer      settings.Peer
	job       settings.Job
	untilIdle bool
	wait      bool
	held      bool
}

func newRun(g *globals) *cobra.Command {
	o := runOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "run [URL...]",
		Short: "Run a peer and crawl the given URLs",
		Long: `Run a peer in the foreground. It joins a ring through --bootstrap, --dns-seed, --mdns or the peers of its last run. With none of these it founds a
ring. The URLs are posted as a job. An unfinished job with the same parameters is continued. A finished one is not repeated, unless it fetched no page
or --again is given. --header sends over https, and over http if its HOST begins with http://.

Ctrl-C shuts down gracefully: the peer hands over its records and leaves the ring. A peer that is alone, or gets SIGTERM, keeps them for its next
start. A second Ctrl-C stops immediately, which is safe.`,
		Example: `  apoidea run https://example.org/ --contact https://me.example/crawler --until-idle
  apoidea run --profile lab --allow-private --delay 0 --until-idle --data-dir /tmp/peer \
    http://127.0.0.1:8080/
  apoidea run --dns-seed seeds.example.org --contact https://me.example/crawler`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o.peer.TakePrefixes(args))
		},
	}
	o.peer.Add(cmd.Flags())
	o.job.Add(cmd.Flags())
	cmd.Flags().BoolVar(&o.untilIdle, "until-idle", false, "exit when the whole ring has no work left")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "report progress until the job is done, then keep running")
	cmd.Flags().BoolVar(&o.held, "held", false, "wait for a byte on standard input before fetching")
	_ = cmd.Flags().MarkHidden("held") // cluster up gives it
	return cmd
}

func (o *runOptions) run(ctx context.Context, out, errOut io.Writer, urls []string) error {
	cfg, err := o.peer.Configure(o.dataDir, o.api, versionString())
	if err != nil {
		return err
	}
	spec, err := o.job.Spec(urls)
	defer o.job.Close() //nolint:errcheck // it was read
	if err != nil {
		return err
	}
	if cfg.DataDir, err = filepath.Abs(cfg.DataDir); err != nil {
		return err
	}
	cfg.TokenFile = o.token
	datadir.Private()
	log, done, err := o.logger(errOut)
	if err != nil {
		return err
	}
	defer done()
	if addr := cfg.APIAddr(); control.Answers(ctx, addr) {
		if strings.HasPrefix(addr, "tcp:") {
			return fmt.Errorf("--api %s: already in use by a peer or another program; query it (apoidea status --api %s) or choose another --api", addr, addr)
		}
		return fmt.Errorf("a peer is already running in %s: query it (apoidea status --data-dir %s) or choose another --data-dir", cfg.DataDir, cfg.DataDir)
	}
	cfg.OwnProcess = true
	begun := make(chan struct{})
	cfg.Held = begun
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	n, err := node.New(ctx, cfg, log)
	if err != nil {
		return damageHint(cfg.DataDir, err)
	}
	interrupted := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := n.Run(gctx)
		cancel()
		return err
	})
	fetch := func() { close(begun) }
	if o.held {
		go obey(os.Stdin, fetch, cancel) // ends with the input or the process: a read cannot be cancelled
		fetch = func() {}
	}
	left := false
	group.Go(func() error {
		select {
		case <-interrupted.Done():
			left = o.leaveOrStop(interrupted, n, errOut, cancel)
		case <-gctx.Done():
		}
		return nil
	})
	var last *progress.Ran
	group.Go(func() error {
		status, err := o.drive(gctx, out, errOut, n, spec, fetch)
		last = status
		if err != nil || o.untilIdle {
			cancel()
		}
		if errors.Is(err, context.Canceled) {
			return nil // the canceling part returns the reason
		}
		return err
	})
	err = damageHint(cfg.DataDir, failures(group.Wait()))
	if err == nil && last == nil && o.untilIdle {
		if left {
			return fmt.Errorf("%w; the ring continues the crawl", errInterrupted)
		}
		if interrupted.Err() != nil {
			return fmt.Errorf("%w; the same command continues the crawl", errInterrupted)
		}
		return errors.New("the peer left the ring before the crawl was done")
	}
	if last != nil {
		err = cmp.Or(err, o.summary(out, last, filepath.Join(cfg.DataDir, "archive")))
	}
	return err
}

// obey starts fetching at the first byte of in, and stops at its end unless that byte is Free.
func obey(in io.Reader, fetch, stop func()) {
	order := make([]byte, 1)
	if _, err := io.ReadFull(in, order); err == nil {
		fetch()
		if order[0] == cluster.Free {
			return
		}
		_, _ = io.Copy(io.Discard, in)
	}
	stop()
}

// leaveOrStop stops a peer: after an interrupt it hands over its records and leaves the ring;
// otherwise, or alone, it keeps them for its next start.
func (o *runOptions) leaveOrStop(ctx context.Context, n *node.Node, errOut io.Writer, stop func()) (left bool) {
	if !errors.Is(context.Cause(ctx), errInterrupted) || !n.Leaving() && n.Alone() {
		if !o.quiet {
			fmt.Fprintf(errOut, "%v: shutting down (a second interrupt stops immediately; no data is lost)\n", context.Cause(ctx))
		}
		stop()
		return false
	}
	if !o.quiet {
		fmt.Fprintln(errOut, "leaving the ring: handing over records (a second interrupt stops immediately; no data is lost)")
	}
	n.BeginLeave()
	return true
}

// failures drops the errors of a requested shutdown.
func failures(err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range list.Unwrap() {
			if e = failures(e); e != nil {
				rest = append(rest, e)
			}
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, node.ErrStopped) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drive posts the job of a running peer and follows it. It returns the final status, with an error
// if nothing was fetched. It calls fetch after reading the counters.
func (o *runOptions) drive(ctx context.Context, out, errOut io.Writer, n *node.Node, spec control.JobSpec, fetch func()) (*progress.Ran, error) {
	if err := n.Ready(ctx); err != nil {
		return nil, err
	}
	if !o.quiet {
		fmt.Fprintln(errOut, n.Banner())
	}
	var crawl *progress.Crawl
	if o.untilIdle || o.wait {
		var err error
		if crawl, err = progress.Begin(ctx, n); err != nil {
			return nil, err
		}
	}
	fetch()
	var job *control.Job
	if len(spec.URLs) > 0 {
		var err error
		if job, err = o.job.Post(ctx, n, spec, o.sayTo(errOut)); err != nil {
			return nil, err
		}
		if !o.quiet && (crawl == nil || progress.Finished(job) == "") { // else it is the result, printed at the end
			fmt.Fprintln(errOut, progress.Posted(job))
		}
	}
	if crawl == nil {
		return nil, o.tellStatus(ctx, errOut, n)
	}
	screen := progress.Screen{Out: out, Err: errOut, Quiet: o.quiet, JSON: o.json}
	return crawl.End(ctx, job, o.untilIdle, o.peer.Config.Patience, screen, o.hints(errOut))
}

// statusEvery is how often a peer that runs without an end prints what it does, if that changed.
const statusEvery = time.Minute

func (o *runOptions) tellStatus(ctx context.Context, errOut io.Writer, n *node.Node) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for last := ""; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		s, err := n.Status(ctx, false)
		if err != nil || o.quiet || o.json {
			continue
		}
		if text := show.Running(s); text != last {
			last = text
			fmt.Fprintf(errOut, "%s: %s\n", words.Seconds(s.UptimeS), text)
		}
	}
}

func (o *runOptions) summary(out io.Writer, s *progress.Ran, archive string) error {
	if o.json {
		return words.Line(out, s) // the last line of the stream of progress
	}
	if o.quiet {
		return nil
	}
	return s.Print(out, archive)
}
