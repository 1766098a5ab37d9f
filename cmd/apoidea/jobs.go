package main

import (
	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
)

func newJobs(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "jobs",
		Short:   "List the jobs of the ring",
		Example: "  apoidea jobs\n  apoidea jobs --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) ([]control.Job, error) { return c.Jobs(cmd.Context()) }, show.Jobs)
		},
	}
}

func newJob(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Show, pause, resume or cancel a job",
		Long: `Show, pause, resume or cancel a job. A job is given by its ID or an unambiguous prefix. It is signed by the job key of the peer where it was posted.
Only a peer with this key can pause, resume or cancel it (run --job-key).`,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "keys", Short: "Show the job keys of this peer and of each job", Example: "  apoidea job keys", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*show.Keys, error) {
				key, err := c.JobKey(cmd.Context())
				if err != nil {
					return nil, err
				}
				jobs, err := c.Jobs(cmd.Context())
				return show.KeysOf(key, jobs), err
			}, show.JobKeys)
		},
	}, &cobra.Command{
		Use: "show ID", Short: "Show a job and the outcomes of its URLs", Example: "  apoidea job show 3f2a", Args: exactly("the ID of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Job, error) { return c.Job(cmd.Context(), args[0]) }, show.Job)
		},
	}, newJobReport(g))
	cmd.AddCommand(&cobra.Command{
		Use: "refresh ID N/day|INTERVAL|off", Short: "Change how often the pages of a job are visited again",
		Long: `Set how often the pages of a job are fetched again: N visits a day of the whole ring, which go to the pages that change most, or an interval within which
each page is visited. off ends it. A page is requested with its ETag or Last-Modified, and stored again if it has changed.`,
		Example: "  apoidea job refresh 3f2a 20000/day\n  apoidea job refresh 3f2a 7d\n  apoidea job refresh 3f2a off", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Job, error) { return c.SetRefresh(cmd.Context(), args[0], args[1]) }, show.Job)
		},
	})
	for action, text := range map[string]string{
		"pause":  "Pause a job; leased URLs are still fetched",
		"resume": "Resume a paused job",
		"cancel": "Cancel a job and drop its pending URLs",
	} {
		cmd.AddCommand(&cobra.Command{
			Use: action + " ID", Short: text, Example: "  apoidea job " + action + " 3f2a", Args: exactly("the ID of a job"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return ask(g, cmd, func(c *control.Client) (*control.Job, error) { return c.SetJob(cmd.Context(), args[0], action) }, show.Job)
			},
		})
	}
	return cmd
}

func newHost(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "host HOST",
		Short:   "Show a host's owner, worker, robots.txt, delays and RTTs",
		Example: "  apoidea host example.org\n  apoidea host docs.localhost:8080 --json",
		Args:    exactly("a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Host, error) { return c.Host(cmd.Context(), args[0]) }, show.Host)
		},
	}
}

func newRefresh(g *globals) *cobra.Command {
	now := false
	cmd := &cobra.Command{
		Use:   "refresh URL|HOST",
		Short: "Crawl a page, or all pages of a host, again",
		Long: `Fetch a page (a URL with its scheme), or all pages of a host, again. Only the peer that posted their job can do that. The pages take part in the budget of
their job's refresh; with --now they are fetched as soon as the delay of the host allows, also if the job has no refresh.`,
		Example: "  apoidea refresh https://example.org/news --now\n  apoidea refresh example.org",
		Args:    exactly("a URL or a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Refresh, error) {
				r, err := c.Refresh(cmd.Context(), args[0], now)
				if err == nil && r.Jobs == 0 {
					err = &control.Error{Kind: control.KindRefused, Text: args[0] + ": " + r.Text}
				}
				return r, err
			}, show.Refresh)
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "at once, outside the budget")
	return cmd
}

func newWhy(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "why URL",
		Short:   "Explain why a URL is or is not crawled",
		Example: "  apoidea why https://example.org/private/",
		Args:    exactly("a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Why, error) { return c.Why(cmd.Context(), args[0]) }, show.Why)
		},
	}
}
