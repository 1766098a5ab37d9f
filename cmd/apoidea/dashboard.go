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
		Short: "Print a link to the running peer's web page",
		Long: `Print a link to the page of the running peer: its work, jobs, the ring, charts, and buttons to pause, to steer jobs and to set limits. The link
logs one browser in, once, within 15 minutes. Without it the page has no buttons, and cannot be seen at all if the peer runs with --dashboard-login.`,
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
