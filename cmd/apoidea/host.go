package main

import (
	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
)

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
