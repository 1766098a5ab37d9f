package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

type crawlOptions struct {
	*globals
	job     settings.Job
	wait    bool
	timeout time.Duration
	// patience is the peer's own unless it is given.
	patience time.Duration
}

func newCrawl(g *globals) *cobra.Command {
	o := crawlOptions{globals: g}
	cmd := &cobra.Command{
		Use:   "crawl [URL...]",
		Short: "Post a crawl job to a running peer",
		Long: `Post a job to the running peer selected by --data-dir or --api, and print the job's ID. With --wait, return when the job is done.
An unfinished job with the same parameters is continued. A finished one is not repeated, unless it fetched no page or --again is given.

Without --scope the job is limited to the hosts of its seeds and of the targets to which seeds redirect. Seeds are always fetched.
Patterns of --include, --exclude and --first match as in robots.txt: * is any text, $ the end. --include applies to links only.`,
		Example: `  apoidea crawl https://example.org/ --max-depth 3 --wait
  apoidea crawl https://a.example/ https://b.example/ --scope '*.example' --max-pages 10000
  apoidea crawl --seeds list.txt --max-depth 1 --wait
  apoidea crawl --sitemap https://a.example/sitemap.xml --max-depth 1
  apoidea crawl https://a.example/docs/ --include /docs/ --exclude '/*.pdf$' --first /docs/new/
  apoidea crawl https://a.example/ --scope '*.a.example' --max-depth 5 --max-depth news.a.example=1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("seeds") || cmd.Flags().Changed("sitemap") {
				return nil
			}
			return atLeast(1, "one URL (or --seeds FILE, --sitemap URL)")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("patience") {
				o.patience = -1
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	o.job.Add(cmd.Flags())
	cmd.Flags().BoolVar(&o.wait, "wait", false, "return when the job is done")
	cmd.Flags().DurationVar(&o.patience, "patience", node.DefaultPatience, "with --wait: maximum wait for a retry; 0: unlimited (default the peer's)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "with --wait: maximum time to wait; 0: unlimited")
	return cmd
}

func (o *crawlOptions) run(ctx context.Context, out, errOut io.Writer, urls []string) error {
	spec, err := o.job.Spec(urls)
	defer o.job.Close() //nolint:errcheck // it was read
	if err != nil {
		return err
	}
	c := o.client()
	defer c.Close()
	job, err := o.job.Post(ctx, c, spec, o.sayTo(errOut))
	if err != nil {
		return err
	}
	finished := progress.Finished(job) != ""
	if !o.quiet && !o.json && (o.wait || job.Continued) {
		fmt.Fprintln(errOut, progress.Posted(job))
	}
	if o.wait && !finished {
		if job, err = o.await(ctx, c, job, errOut); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		err = words.JSON(out, job)
	case o.wait:
		err = show.Job(out, job)
	default:
		_, err = fmt.Fprintln(out, job.ID)
	}
	if err != nil || !o.wait {
		return err
	}
	return progress.ExplainNothing(ctx, c, job.ID, o.hints(errOut))
}

func (o *crawlOptions) await(ctx context.Context, c *control.Client, job *control.Job, errOut io.Writer) (*control.Job, error) {
	wait := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	if err := progress.Follow(wait, c, job.ID, o.patience, progress.Screen{Err: errOut, Quiet: o.quiet || o.json}); err != nil {
		if wait.Err() != nil && ctx.Err() == nil {
			return nil, &control.Error{Kind: control.KindTimeout, Text: fmt.Sprintf("job %s: not done after --timeout %v; it continues (apoidea job show %s)", job.ID, o.timeout, job.ID)}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w; job %s continues (apoidea job show %s)", errInterrupted, job.ID, job.ID)
		}
		return nil, err
	}
	progress.Finish(ctx, c, job.ID)
	return c.Job(ctx, job.ID)
}
