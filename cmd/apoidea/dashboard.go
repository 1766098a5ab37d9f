package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
)

func newDashboard(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "dashboard",
		Short: "Print a link to the dashboard of the running peer",
		Long: `Print a link to the dashboard of the running peer: its work, jobs, ring, charts and controls. The link logs in one browser, once, within 15 minutes.
Without a login the dashboard is read-only; with --dashboard-login, and beyond loopback, it requires one.`,
		Example: "  apoidea dashboard\n  xdg-open \"$(apoidea dashboard)\"",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Dashboard, error) { return c.Dashboard(cmd.Context()) },
				func(out io.Writer, d *control.Dashboard) error {
					_, err := fmt.Fprintln(out, d.Login)
					return err
				})
		},
	}
}
