package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newPause(g *globals) *cobra.Command {
	var span string
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Pause fetching; the peer stays in the ring",
		Long: `Pause fetching until resume, or for the time given by --for. No new fetch starts. Running fetches are canceled after a second, and the next worker of
their host fetches those URLs later. The peer stays in the ring and keeps its records. A pause persists across restarts.`,
		Example: "  apoidea pause\n  apoidea pause --for 2h",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d time.Duration
			if span != "" {
				var err error
				if d, err = control.ParsePause(span); err != nil {
					return err
				}
			}
			return g.changeLimits(cmd, nil, func(ctx context.Context, c *control.Client) (*control.Limits, error) { return c.Pause(ctx, d) })
		},
	}
	cmd.Flags().StringVar(&span, "for", "", "duration, such as 90m or 2h (default until resume)")
	return cmd
}

func newResume(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "resume",
		Short:   "Resume fetching after a pause",
		Long:    `Resume fetching after a pause. A schedule, a quota or another rule may still pause the peer; the output lists it, and limits set changes it.`,
		Example: "  apoidea resume",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.changeLimits(cmd, nil, func(ctx context.Context, c *control.Client) (*control.Limits, error) { return c.Resume(ctx) })
		},
	}
}

func newLeave(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "leave", Short: "Leave the ring gracefully and stop the peer", Example: "  apoidea leave", Args: noArgs,
		Long: `Leave the ring gracefully and stop the peer. It stops fetching, reports outcomes, hands over its records and exits. The command returns when the process
has exited. A peer without neighbors keeps its records. An interrupt stops only the wait.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			if !g.quiet {
				fmt.Fprintln(cmd.ErrOrStderr(), "leaving the ring: handing over records")
			}
			left := "left; fetched pages stay in the data directory"
			if err := c.Leave(cmd.Context()); err != nil {
				if control.KindOf(err) != control.KindAlone {
					return err
				}
				left = "ended; " + err.Error()
			}
			if err := g.awaitEnd(cmd.Context()); err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]string{"state": "left"}, left)
		},
	}
}

// endTime is the time limit for the process of a peer that left to exit.
const endTime = 30 * time.Second

// awaitEnd returns when no process uses the data directory. It does not wait for remote peers.
func (g *globals) awaitEnd(ctx context.Context) error {
	if g.api != "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, fmt.Errorf("the peer left the ring, but a process still uses %s: it is still stopping or was restarted", g.dataDir))
	defer cancel()
	for {
		if _, err := node.ReadKept(g.dataDir); !node.InUse(err) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changeLimits changes settings, or the pause, of the running peer and prints the difference.
func (g *globals) changeLimits(cmd *cobra.Command, set map[string]string, change func(context.Context, *control.Client) (*control.Limits, error)) error {
	c := g.client()
	defer c.Close()
	before, err := c.Limits(cmd.Context())
	if err != nil {
		return err
	}
	l, err := change(cmd.Context(), c)
	if err != nil {
		return err
	}
	return g.say(cmd.OutOrStdout(), l, show.Changed(before, l, set, time.Now()))
}

func newLimits(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Show resource limits and active throttles",
		Long: `Show the resource limits of the peer: their values, the rules active now with reason and end, and the current usage.
A condition that the system does not report (battery, metered link, idle time) is unknown and pauses nothing.

` + settings.AboutLimits,
		Example: "  apoidea limits\n  apoidea limits set bandwidth=2Mbit pause-on-battery=true\n  apoidea limits set schedule='mon-fri 22:00-07:00; sat,sun'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Limits, error) { return c.Limits(cmd.Context()) },
				func(out io.Writer, l *control.Limits) error { return show.Limits(out, l, time.Now()) })
		},
	}
	cmd.AddCommand(newLimitsSet(g))
	return cmd
}

func newLimitsSet(g *globals) *cobra.Command {
	var keys strings.Builder
	for _, k := range volunteer.Keys {
		fmt.Fprintf(&keys, "    %-16s  %s\n", k.Name, k.About)
	}
	return &cobra.Command{
		Use:   "set KEY=VALUE...",
		Short: "Change resource limits of the running peer",
		Long: `Change limits of the running peer: all given limits, or none if one value is wrong. They take effect within two seconds and persist across restarts,
where they override flags and the configuration file. The value "default" reverts a change.

` + keys.String(),
		Example: "  apoidea limits set bandwidth=2Mbit bandwidth-up=500kbit\n  apoidea limits set quota-month=50GiB only-when-idle=10m\n  apoidea limits set bandwidth=default",
		Args:    atLeast(1, "one KEY=VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := assignments(args)
			if err != nil {
				return err
			}
			return g.changeLimits(cmd, values, func(ctx context.Context, c *control.Client) (*control.Limits, error) { return c.SetLimits(ctx, values) })
		},
	}
}

// assignments reads KEY=VALUE words, and checks what can be checked without the peer.
func assignments(args []string) (map[string]string, error) {
	var known []string
	for _, k := range volunteer.Keys {
		known = append(known, k.Name)
	}
	values := make(map[string]string)
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%w: %q: must be KEY=VALUE", errUsage, a)
		}
		k, ok := volunteer.Find(key)
		if !ok {
			return nil, fmt.Errorf("%w: unknown key %q%s (see `apoidea limits set --help`)", errUsage, key, words.Nearest(key, known))
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("%w: %s is set twice", errUsage, key)
		}
		if value != "default" {
			if err := k.Set(new(volunteer.Rules), value); err != nil {
				return nil, fmt.Errorf("%w: %w", errUsage, err)
			}
		}
		values[key] = value
	}
	return values, nil
}

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
