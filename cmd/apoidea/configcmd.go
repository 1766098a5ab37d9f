package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/volunteer"
)

func newConfig(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "The configuration file: write one, show what holds, check one"}
	cmd.AddCommand(newConfigInit(g), newConfigShow(g), newConfigCheck(g))
	return cmd
}

// runSettings are the flags that a file is about, in groups; they stand for nothing but their names, texts and defaults.
type runSettings struct {
	peer runFlags
	job  jobFlags
}

// add adds the flags of a peer and of its job, in the order in which they are explained.
func (s *runSettings) add(f *pflag.FlagSet) {
	f.SortFlags = false
	s.peer.add(f)
	s.job.add(f)
}

func newConfigInit(g *globals) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration file with every key, its default and its meaning",
		Long: `Write a configuration file in which every key stands with its default and its meaning, all of them commented out: config.toml in the data
directory, where a peer finds it by itself, or FILE. A file that is there is left alone unless --force is given.`,
		Example: "  apoidea config init\n  apoidea config init ./volunteer.toml\n  apoidea config init --data-dir /srv/peer --force",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := filepath.Join(g.dataDir, configName)
			if len(args) == 1 {
				path = args[0]
			}
			if err := writeNew(path, configText(cmd.Root()), force); err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]string{"file": path}, "written: "+path)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return cmd
}

// writeNew writes a file as a whole. One that is there is replaced by force only.
func writeNew(path, text string, force bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if !force {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s is there already (--force replaces it)", errUsage, path)
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

// configWidth is how long lines of the written file are, about.
const configWidth = 100

// configText is a configuration file with everything in it and nothing set.
func configText(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`# Configuration of an apoidea peer. Each key is a flag of the same name, and APOIDEA_<KEY> in the environment: a flag beats the
# environment, which beats this file. Take the # from before a key to set it. What stands here is the default.
`)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	var s runSettings
	s.peer.add(flags)
	isLimit := func(f *pflag.Flag) bool {
		_, ok := volunteer.Find(f.Name)
		return ok
	}
	group := func(title string, flags *pflag.FlagSet, member func(*pflag.Flag) bool) {
		fmt.Fprintf(&b, "\n#\n# %s\n#\n", title)
		flags.VisitAll(func(f *pflag.Flag) {
			if member(f) {
				writeKey(&b, f)
			}
		})
	}
	group("What the peer may use of this machine and its link (while it runs: apoidea limits)", flags, isLimit)
	group("The peer", flags, func(f *pflag.Flag) bool { return !isLimit(f) })
	jobs := pflag.NewFlagSet("", pflag.ContinueOnError)
	jobs.SortFlags = false
	s.job.add(jobs)
	group("The job that the URLs of run and crawl are posted as", jobs, func(*pflag.Flag) bool { return true })
	group("Every command", root.PersistentFlags(), func(f *pflag.Flag) bool { return f.Name != "config" && f.Name != "help" && f.Name != "json" })
	return b.String()
}

// writeKey writes a key with its meaning and its default.
func writeKey(b *strings.Builder, f *pflag.Flag) {
	line := "#"
	b.WriteString("\n")
	for word := range strings.FieldsSeq(f.Usage) {
		if len(line)+1+len(word) > configWidth {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	fmt.Fprintf(b, "%s\n#%s = %s\n", line, f.Name, tomlValue(f))
}

// tomlValue writes the present value of a flag as a file has it.
func tomlValue(f *pflag.Flag) string {
	if list, ok := listOf(f); ok {
		var quoted []string
		for _, v := range list.GetSlice() {
			quoted = append(quoted, strconv.Quote(v))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	v := f.Value.String()
	switch f.Value.Type() {
	case "bool", "int", "uint64", "float64":
		return v
	default:
		if v == "true" || v == "false" {
			return v
		}
		return strconv.Quote(v)
	}
}

// listOf is the value of a flag that is a list at present.
func listOf(f *pflag.Flag) (pflag.SliceValue, bool) {
	if a, ok := f.Value.(*allowed); ok && a.isSwitch() {
		return nil, false
	}
	list, ok := f.Value.(pflag.SliceValue)
	return list, ok
}

// effective is one key as it holds.
type effective struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
}

func newConfigShow(g *globals) *cobra.Command {
	var s runSettings
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every value that run would take, and where it comes from",
		Long: `Show every value that run would take with the same flags, and where it comes from: flag, environment, configuration file or default. What
limits set has changed at a peer stands in apoidea limits.`,
		Example: "  apoidea config show\n  apoidea config show --config volunteer.toml --fetchers 8 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []effective
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && f.Name != "json" {
					all = append(all, effectiveOf(f))
				}
			})
			if g.json {
				return words.JSON(cmd.OutOrStdout(), all)
			}
			rows := [][]string{{"KEY", "VALUE", "FROM"}}
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && f.Name != "json" {
					rows = append(rows, []string{f.Name, tomlValue(f), effectiveOf(f).Source})
				}
			})
			return words.Table(cmd.OutOrStdout(), rows)
		},
	}
	s.add(cmd.Flags())
	return cmd
}

func effectiveOf(f *pflag.Flag) effective {
	e := effective{Key: f.Name, Value: f.Value.String(), Source: "default"}
	if list, ok := listOf(f); ok {
		e.Value = append([]string{}, list.GetSlice()...)
	}
	switch note := f.Annotations[sourceNote]; {
	case len(note) > 0:
		e.Source = note[0]
	case f.Changed:
		e.Source = "flag"
	}
	return e
}

func newConfigCheck(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file: unknown keys, values, and what does not go together",
		Long: `Check a configuration file, the data directory's config.toml or FILE, without starting anything: that every key is known (one that is not is an error with a suggestion), that every value can
be read, and that they go together. Flags and environment are left out.`,
		Example: "  apoidea config check\n  apoidea config check ./volunteer.toml --json",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := filepath.Join(g.dataDir, configName)
			if len(args) == 1 {
				path = args[0]
			}
			n, err := checkConfig(cmd.Root(), g, path)
			if err != nil {
				return err
			}
			keys := map[bool]string{true: "1 key", false: fmt.Sprintf("%d keys", n)}[n == 1]
			return g.say(cmd.OutOrStdout(), map[string]any{"file": path, "ok": true, "keys": n}, fmt.Sprintf("%s: in order, %s set", path, keys))
		},
	}
}

// checkConfig returns how many keys a file sets, or what is wrong with it.
func checkConfig(root *cobra.Command, g *globals, file string) (keys int, err error) {
	table, err := readConfig(root, file)
	if err != nil {
		return 0, err
	}
	var s runSettings
	probe := &cobra.Command{Use: root.Name()}
	probe.PersistentFlags().AddFlagSet(globalsOf(&globals{dataDir: g.dataDir}))
	s.add(probe.Flags())
	probe.Flags().AddFlagSet(probe.PersistentFlags())
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		return 0, err
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if f := probe.Flags().Lookup(key); f != nil {
			err = setFromFile(probe, f, file, table[key])
		} else if run.Flags().Lookup(key) == nil {
			err = fmt.Errorf("%w: config %s: %s is a flag of another command than run, and has no place in a peer's file", errUsage, file, key)
		}
		if err != nil {
			return 0, err
		}
	}
	_, err = s.peer.configure(g)
	if err == nil {
		_, err = s.job.spec(nil)
	}
	if text, ok := strings.CutPrefix(fmt.Sprint(err), errUsage.Error()+": "); ok {
		return 0, fmt.Errorf("%w: config %s: %s", errUsage, file, text)
	}
	if err != nil {
		return 0, fmt.Errorf("config %s: %w", file, err)
	}
	return len(table), nil
}
