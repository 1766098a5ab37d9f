package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
)

func newOptOut(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "optout",
		Short: "Sites that wish not to be crawled: check, list, add, withdraw",
		Long: `Sites that wish not to be crawled. A peer has lists of its own (--optout-file and --optout-url of run), which hold wherever it is the owner or
the worker of a host. The ring keeps the wishes of hosts and domains at their owners, until they are withdrawn; in the public profile the owner
looks for the line that check prints, in the file /.well-known/apoidea.txt of the site or in a TXT record of _apoidea.<name>.

A list has a rule a line: "host example.org", "domain example.org" (with everything below), "ip 192.0.2.0/24", "url example.org/private/".`,
		Example: "  apoidea optout check https://example.org/private/\n  apoidea optout add domain example.org",
	}
	cmd.AddCommand(newOptOutCheck(g), newOptOutList(g), newOptOutSet(g, "add", "opt-out"), newOptOutSet(g, "withdraw", "withdraw"))
	return cmd
}

func newOptOutCheck(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "check URL",
		Short:   "Tell whether a URL is left alone, and how its site opts out",
		Example: "  apoidea optout check https://example.org/private/",
		Args:    exactly("a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.OptOutCheck, error) { return c.OptOutCheck(cmd.Context(), args[0]) }, show.OptOutCheck)
		},
	}
}

func newOptOutList(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the opt-outs that the peer knows of: its own lists, and what it keeps for the ring",
		Example: "  apoidea optout list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.OptOuts, error) { return c.OptOuts(cmd.Context()) }, show.OptOuts)
		},
	}
}

func newOptOutSet(g *globals, use, action string) *cobra.Command {
	short := map[string]string{
		"add":      "Tell the ring that a host, or a domain with all below it, opts out",
		"withdraw": "Tell the ring that a host or domain may be crawled again",
	}[use]
	return &cobra.Command{
		Use:     use + " [host|domain] NAME",
		Short:   short,
		Example: "  apoidea optout " + use + " example.org\n  apoidea optout " + use + " domain example.org",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return wrongUsage(cmd, "want a name, or host or domain and a name")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			o, err := c.SetOptOut(cmd.Context(), strings.Join(args, " "), action)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s: %s", o.Subject, o.Action)
			if !o.Changed {
				text += " (it was so before)"
			}
			return g.say(cmd.OutOrStdout(), o, text)
		},
	}
}
