package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

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
