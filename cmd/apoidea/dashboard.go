package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
)

func newDashboard(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "dashboard",
		Short: "Print a link to the running peer's web page",
		Long: `Print a link to the page of the running peer: the ring, what is crawled, charts, and the buttons to pause and to set limits. The link logs
one browser in, once, within a quarter of an hour; without it the page can be looked at on this machine, and its buttons are not there.`,
		Example: "  apoidea dashboard\n  xdg-open \"$(apoidea dashboard)\"",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			d, err := c.Dashboard(cmd.Context())
			if err != nil {
				return err
			}
			if g.json {
				return words.JSON(cmd.OutOrStdout(), d)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), d.Login)
			return err
		},
	}
}
