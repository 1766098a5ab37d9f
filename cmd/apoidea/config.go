package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newConfig(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Write, show and check the configuration"}
	cmd.AddCommand(newConfigInit(g), newConfigShow(g))
	return cmd
}

func newConfigInit(g *globals) *cobra.Command {
	force, given := false, pflag.NewFlagSet("", pflag.ContinueOnError)
	new(settings.Run).Add(given)
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration file with all keys and defaults",
		Long: `Write a configuration file with every key, its description and its default: config.toml in the data directory, which the peer loads automatically,
or FILE. Keys given as flags are set; all others are commented out. A volunteer needs profile, contact and dns-seed. An existing file is kept unless
--force is given.`,
		Example: "  apoidea config init\n  apoidea config init --profile public --contact https://me.example/ --dns-seed seeds.example.org\n  apoidea config init ./volunteer.toml\n  apoidea config init --data-dir /srv/peer --force",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := filepath.Join(g.dataDir, settings.FileName)
			if len(args) == 1 {
				path = args[0]
			}
			if err := writeNew(path, settings.Text(cmd.Root(), given), force); err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]string{"file": path}, "written: "+path+unset(given.Changed))
		},
	}
	cmd.Flags().AddFlagSet(given)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return cmd
}

// unset names the keys of a volunteer that are not set.
func unset(set func(key string) bool) string {
	missing := slices.DeleteFunc([]string{"profile", "contact", "dns-seed"}, set)
	if len(missing) == 0 {
		return ""
	}
	return "\nto join a public ring, also set " + strings.Join(missing, ", ") + " in the file or as flags of config init"
}

// writeNew writes a file as a whole. One that is there is replaced by force only.
func writeNew(path, text string, force bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if !force {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s: file exists (--force replaces it)", errUsage, path)
		}
		if err != nil {
			return err
		}
		_, err = io.WriteString(f, text)
		return errors.Join(err, f.Close())
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func newConfigShow(g *globals) *cobra.Command {
	var s settings.Run
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show and check the configuration and its sources",
		Long: `Show the effective configuration of run with the same flags, and the source of each value: flag, environment, configuration file or default. Unknown
keys, invalid values and conflicting settings are errors, as for run. For changes made by limits set, see apoidea limits.`,
		Example: "  apoidea config show\n  apoidea config show --config volunteer.toml --fetchers 8 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := settings.All(cmd.Flags())
			_, wrong := s.Peer.Configure(g.dataDir, g.api, "")
			if wrong == nil {
				_, wrong = s.Job.Spec(nil)
				defer s.Job.Close() //nolint:errcheck // it was read
			}
			if g.json {
				return errors.Join(words.JSON(cmd.OutOrStdout(), all), wrong)
			}
			rows := [][]string{{"KEY", "VALUE", "FROM"}}
			for _, e := range all {
				rows = append(rows, []string{e.Key, e.Text, e.Source})
			}
			return errors.Join(words.Table(cmd.OutOrStdout(), rows), wrong)
		},
	}
	s.Add(cmd.Flags())
	return cmd
}
