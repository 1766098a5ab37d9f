package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/ops/words"
)

// helpWidth is the maximum width of help, and leastWidth the minimum.
const helpWidth, minHelpWidth = 100, 40

// installHelp sets the help and usage functions of root and its subcommands.
func installHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		_, _ = io.WriteString(out, helpText(cmd, columns(out)))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		_, err := io.WriteString(out, usageOf(cmd, columns(out)))
		return err
	})
}

// columns returns the width of help written to w.
func columns(w io.Writer) int {
	if width := words.Width(w); width > 0 {
		return max(minHelpWidth, min(helpWidth, width))
	}
	return helpWidth
}

// helpText returns the help of a command; for a help topic only its text.
func helpText(cmd *cobra.Command, width int) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	text = words.Fill(strings.TrimSpace(text), width) + "\n"
	if cmd.Runnable() || cmd.HasSubCommands() {
		text += "\n" + usageOf(cmd, width)
	}
	return text
}

func usageOf(cmd *cobra.Command, width int) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	commands := func(title string, member func(*cobra.Command) bool) {
		var rows strings.Builder
		for _, sub := range cmd.Commands() {
			if member(sub) {
				fmt.Fprintf(&rows, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "\n%s\n%s\n", title, words.Fill(strings.TrimRight(rows.String(), "\n"), width))
		}
	}
	for _, g := range cmd.Groups() {
		commands(g.Title, func(sub *cobra.Command) bool { return sub.GroupID == g.ID && sub.IsAvailableCommand() })
	}
	commands("Available Commands:", func(sub *cobra.Command) bool { return sub.GroupID == "" && sub.IsAvailableCommand() })
	commands("Topics (apoidea help TOPIC):", (*cobra.Command).IsAdditionalHelpTopicCommand)
	for _, g := range flagsOf(cmd) {
		fmt.Fprintf(&b, "\n%s\n%s\n", g.title, words.Fill(strings.TrimRight(g.flags.FlagUsages(), "\n"), width))
	}
	if takesPeer(cmd) {
		b.WriteString("\nMore settings, as flags or keys of the configuration file: apoidea help settings\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nDetails of a command: %s COMMAND --help\n", cmd.CommandPath())
	}
	return b.String()
}

// titledFlags are flags with a title.
type titledFlags struct {
	title string
	flags *pflag.FlagSet
}

// takesPeer reports whether a command has the flags of a peer.
func takesPeer(cmd *cobra.Command) bool { return cmd.Flags().Lookup("placement") != nil }

// rareSettings returns the settings that run --help leaves out, by group.
func rareSettings(run *cobra.Command) string {
	var b strings.Builder
	for _, g := range settings.Groups {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range g.Rare() {
			set.AddFlag(legibleFlag(run.Flags().Lookup(name)))
		}
		if title, _, _ := strings.Cut(strings.TrimSuffix(g.Title, ":"), " ("); set.HasFlags() {
			fmt.Fprintf(&b, "\n%s:\n\n%s", title, set.FlagUsages())
		}
	}
	return b.String()
}

// flagsOf groups the flags of a command: its own flags, those of a peer by settings.Groups, and
// those of every command.
func flagsOf(cmd *cobra.Command) (parts []titledFlags) {
	shown := make(map[string]bool)
	part := func(title string, flags []*pflag.Flag) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, f := range flags {
			if f != nil && !f.Hidden && !shown[f.Name] {
				shown[f.Name] = true
				set.AddFlag(legibleFlag(f))
			}
		}
		if set.HasFlags() {
			parts = append(parts, titledFlags{title, set})
		}
	}
	own, shared := listed(cmd.LocalFlags()), listed(cmd.InheritedFlags())
	if !takesPeer(cmd) {
		part("Flags:", own)
		part("Flags of every command:", shared)
		return parts
	}
	var grouped []string
	for _, g := range settings.Groups {
		grouped = append(append(grouped, g.Flags()...), g.Rare()...)
	}
	part("Flags:", slices.DeleteFunc(own, func(f *pflag.Flag) bool { return f.Name == "help" || slices.Contains(grouped, f.Name) }))
	for _, g := range settings.Groups {
		var flags []*pflag.Flag
		for _, name := range g.Flags() {
			flags = append(flags, cmd.Flags().Lookup(name))
		}
		part(g.Title, flags)
	}
	part("Flags of every command:", append(shared, cmd.Flags().Lookup("help")))
	return parts
}

func listed(set *pflag.FlagSet) (flags []*pflag.Flag) {
	set.VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
	return flags
}

// kindOf is the value of a flag with another type name.
type kindOf struct {
	pflag.Value
	kind string
}

// Type implements pflag.Value.
func (k kindOf) Type() string { return k.kind }

// legibleFlag is a flag as shown in help: without a default value that its text describes, and with
// readable types for switches and lists.
func legibleFlag(f *pflag.Flag) *pflag.Flag {
	shown := *f
	switch kind := f.Value.Type(); {
	case (kind == "int" || kind == "duration") && strings.Contains(f.Usage, "(default "):
		shown.DefValue = "0"
	case kind == "bool": // as pflag knows it, it would have [=true|false] behind its name
		shown.Value = kindOf{f.Value, kind}
	case kind == "string" && f.NoOptDefVal == "true":
		shown.Value = kindOf{f.Value, "bool"}
	case kind == "string" && f.DefValue == "0": // which its text explains
		shown.DefValue = ""
	case kind == "stringArray" && f.DefValue == "[]":
		shown.Value, shown.DefValue = kindOf{f.Value, "string"}, ""
	}
	return &shown
}
