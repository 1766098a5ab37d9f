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
		Short: "Manage opt-outs of sites",
		Long: `Manage opt-outs of sites. A peer has its own lists (--optout-file and --optout-url of run). They apply wherever it is the owner or the worker of a host;
the last good copy of a URL is kept. The ring stores opt-outs of hosts and domains at their owners until they are withdrawn. In the public profile the owner
verifies them: check prints a line that must be in /.well-known/apoidea.txt of the site or in a TXT record of _apoidea.<name>.

A list has one rule per line: "host example.org", "domain example.org" (with its subdomains), "ip 192.0.2.0/24", "url example.org/private/".`,
		Example: "  apoidea optout check https://example.org/private/\n  apoidea optout add domain example.org",
	}
	cmd.AddCommand(newOptOutCheck(g), newOptOutList(g), newOptOutSet(g, "add", "opt-out"), newOptOutSet(g, "withdraw", "withdraw"))
	return cmd
}

func newOptOutCheck(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "check URL",
		Short:   "Check whether a URL is opted out",
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
		Short:   "List the opt-outs that the peer holds",
		Example: "  apoidea optout list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.OptOuts, error) { return c.OptOuts(cmd.Context()) }, show.OptOuts)
		},
	}
}

func newOptOutSet(g *globals, use, action string) *cobra.Command {
	short := map[string]string{
		"add":      "Opt a host or domain out of crawling",
		"withdraw": "Withdraw the opt-out of a host or domain",
	}[use]
	return &cobra.Command{
		Use:     use + " [host|domain] NAME",
		Short:   short,
		Example: "  apoidea optout " + use + " example.org\n  apoidea optout " + use + " domain example.org",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return wrongUsage(cmd, "optout requires a name, or host or domain and a name")
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
				text += " (unchanged)"
			}
			return g.say(cmd.OutOrStdout(), o, text)
		},
	}
}
