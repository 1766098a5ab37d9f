package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/ops/words"
)

// noArgs, exactly, atLeast and atMost check the number of arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return wrongUsage(cmd, fmt.Sprintf("unknown command %q%s", args[0], suggestion(cmd, args[0])))
	}
	return wrongUsage(cmd, fmt.Sprintf("%q: %s takes no arguments", args[0], cmd.CommandPath()))
}

func exactly(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%s requires %s, not %d arguments", cmd.CommandPath(), what, len(args)))
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%s requires at least %s", cmd.CommandPath(), what))
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%q: %s takes at most %d argument", args[n], cmd.CommandPath(), n))
	}
}

// wrongUsage returns an error of the command line with a reference to its help.
func wrongUsage(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%w: %s (see `%s --help`)", errUsage, text, cmd.CommandPath())
}

// wrongFlag converts an error of a flag to one of usage, with a suggestion for an unknown flag.
func wrongFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongUsage(cmd, settings.BadValue(bad))
	}
	text := err.Error()
	if word, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		text += words.Nearest(word, known)
	}
	return wrongUsage(cmd, text)
}

// groups makes commands without an action print their help, and reject unknown subcommands.
func groups(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		groups(sub)
	}
	if !cmd.HasSubCommands() || cmd.RunE != nil {
		return
	}
	cmd.Args = noArgs
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

func suggestion(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return ", did you mean " + strings.Join(near, " or ") + "?"
	}
	if cmd.Name() == "job" && strings.Trim(word, "0123456789abcdef") == "" {
		return ", did you mean job show " + word + "?"
	}
	return ""
}
