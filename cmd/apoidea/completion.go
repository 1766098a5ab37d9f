package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/ops/words"
)

// newCompletion replaces cobra's command, which accepts unknown shells.
func newCompletion() *cobra.Command {
	scripts := map[string]func(root *cobra.Command, out io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
		"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	}
	shells := slices.Sorted(maps.Keys(scripts))
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Generate a shell completion script",
		Example: `  source <(apoidea completion bash)
  apoidea completion zsh > "${fpath[1]}/_apoidea"
  apoidea completion fish > ~/.config/fish/completions/apoidea.fish`,
		ValidArgs: shells,
		Args:      exactly("one of " + strings.Join(shells, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := scripts[args[0]]
			if !ok {
				return wrongUsage(cmd, fmt.Sprintf("completion %q: must be one of %s%s", args[0], strings.Join(shells, ", "), words.Nearest(args[0], shells)))
			}
			return write(cmd.Root(), cmd.OutOrStdout())
		},
	}
}
