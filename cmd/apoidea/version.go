package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/ops/words"
)

func newVersion(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  apoidea version --json", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.json {
				return words.JSON(cmd.OutOrStdout(), map[string]any{
					"version": versionString(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
					"revision": buildSetting("vcs.revision"), "time": buildSetting("vcs.time"), "modified": buildSetting("vcs.modified") == "true",
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "apoidea %s (%s, %s/%s)\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildSetting is what the build noted of itself under a key, such as the commit; empty if it did
// not.
func buildSetting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
