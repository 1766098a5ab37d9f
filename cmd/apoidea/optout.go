package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
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
			c := g.client()
			defer c.Close()
			o, err := c.OptOutCheck(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if g.json {
				return words.JSON(out, o)
			}
			state := "may be crawled"
			if o.OptedOut {
				state = "opted out: " + strings.Join(o.Reasons, "; ")
			}
			return words.Table(out, [][]string{
				{"URL", o.URL},
				{"state", state},
				{"to opt out", fmt.Sprintf("the line %s in %s, or in a TXT record", o.Token, o.WellKnown)},
				{"to withdraw", fmt.Sprintf("the line %s there", o.WithdrawToken)},
			})
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
			c := g.client()
			defer c.Close()
			o, err := c.OptOuts(cmd.Context())
			if err != nil {
				return err
			}
			if g.json {
				return words.JSON(cmd.OutOrStdout(), o)
			}
			return printOptOuts(cmd.OutOrStdout(), o)
		},
	}
}

func printOptOuts(out io.Writer, o *control.OptOuts) error {
	var rows [][]string
	for _, l := range o.Lists {
		rows = append(rows, []string{"list " + l.From, strconv.Itoa(l.Rules) + " rules"})
		for _, rule := range l.First {
			rows = append(rows, []string{"", rule})
		}
	}
	for _, d := range o.Domains {
		rows = append(rows, []string{"kept for the ring", "domain " + d})
	}
	for _, h := range o.Hosts {
		rows = append(rows, []string{"kept for the ring", "host " + h})
	}
	if len(rows) == 0 {
		rows = append(rows, []string{"none", "this peer knows of no opt-outs"})
	}
	return words.Table(out, rows)
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
