package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/lab/experiment"
	"github.com/apoidea/apoidea/node/ops/glossary"
	"github.com/apoidea/apoidea/node/ops/words"
)

// ask queries the running peer and prints the answer, as JSON with --json.
func ask[T any](g *globals, cmd *cobra.Command, question func(*control.Client) (T, error), inWords func(io.Writer, T) error) error {
	c := g.client()
	defer c.Close()
	answer, err := question(c)
	if err != nil {
		return err
	}
	if g.json {
		return words.JSON(cmd.OutOrStdout(), answer)
	}
	return inWords(cmd.OutOrStdout(), answer)
}

// say prints the result of a command: a document, a line, or nothing with --quiet.
func (g *globals) say(out io.Writer, document any, line string) error {
	if g.json {
		return words.JSON(out, document)
	}
	if g.quiet {
		return nil
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// newMan writes the manual pages of all commands, for packages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages to a directory", Example: "  apoidea man man1", Hidden: true,
		Args: exactly("a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.PersistentFlags().Lookup("data-dir").DefValue = "$XDG_DATA_HOME/apoidea, or ~/.local/share/apoidea" // not that of the build machine
			day := built()                                                                                           // the same build writes the same pages
			header := &doc.GenManHeader{Title: "APOIDEA", Section: "1", Source: "apoidea " + versionString(), Manual: "Apoidea", Date: &day}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// built is the day of the commit that this is built from, the epoch where that is not known.
func built() time.Time {
	t, err := time.Parse(time.RFC3339, buildSetting("vcs.time"))
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return t
}

// newTopics are the help topics.
func newTopics(run *cobra.Command) []*cobra.Command {
	return []*cobra.Command{
		{Use: "distances", Short: "Emulated RTTs between peers and sites (--latency)", Long: settings.AboutDistances},
		{Use: "experiments", Short: "The experiments and their papers", Long: experiment.Overview()},
		{Use: "placement", Short: "Placement strategies (--placement)", Long: settings.AboutPlacement},
		{Use: "seeds", Short: "Seed URLs, entry peers and founding a ring", Long: settings.AboutSeeds},
		{Use: "settings", Short: "Settings of run beyond those of run --help", Long: settings.AboutSettings + rareSettings(run)},
		{Use: "words", Short: "Glossary", Long: glossary.Text()},
	}
}
