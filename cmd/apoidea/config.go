package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
)

const (
	// configName is the file of a data directory that is read where no other is named.
	configName = "config.toml"
	// maxConfig bounds a configuration file, in bytes.
	maxConfig = 1 << 20
	// sourceNote is where a flag keeps who set it, if that was not the command line.
	sourceNote = "source"
)

// configFile is the file that holds for a command: the one named by flag or environment, else the data directory's own if it has one.
func configFile(cmd *cobra.Command, named string, env func(string) (string, bool)) (file string, implied bool) {
	if named == "" {
		named, _ = env(envName("config"))
	}
	dir := cmd.Flags().Lookup("data-dir")
	if named != "" || dir == nil || !ownConfig(cmd) {
		return named, false
	}
	path := dir.Value.String()
	if v, ok := env(envName("data-dir")); ok && !dir.Changed {
		path = v
	}
	path = filepath.Join(path, configName)
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	return path, true
}

// ownConfig says whether a command is about the peer of the data directory, so that its file holds. Clusters, experiments and webs are not, and who writes or checks
// a file must not fail for what another one says.
func ownConfig(cmd *cobra.Command) bool {
	words := strings.Fields(cmd.CommandPath())
	if len(words) < 2 {
		return false
	}
	switch words[1] {
	case "cluster", "experiment", "web", "version", "help", "completion":
		return false
	case "config":
		return cmd.Name() == "show"
	default:
		return true
	}
}

// fillFlags sets the flags that were not given from the environment and from the TOML file, in that order of precedence.
func fillFlags(cmd *cobra.Command, file string, env func(string) (string, bool)) error {
	file, implied := configFile(cmd, file, env)
	table, err := readConfig(cmd, file)
	if err != nil {
		return err
	}
	if dir, ok := table["data-dir"]; ok && implied && (len(dir) != 1 || filepath.Clean(dir[0]) != filepath.Dir(file)) {
		return fmt.Errorf("%w: config %s: data-dir %q: is not the directory that the file lies in and was found by; name the file with --config", errUsage, file, dir)
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil || f.Name == "config" || f.Name == "help" {
			return
		}
		if v, ok := env(envName(f.Name)); ok {
			values := []string{v}
			if _, list := f.Value.(pflag.SliceValue); list {
				values = strings.Fields(v)
			}
			failed = setFlag(cmd, f.Name, "environment "+envName(f.Name), values)
			return
		}
		if v, ok := table[f.Name]; ok {
			failed = setFromFile(cmd, f, file, v)
		}
	})
	return failed
}

func setFromFile(cmd *cobra.Command, f *pflag.Flag, file string, values []string) error {
	if _, list := f.Value.(pflag.SliceValue); len(values) != 1 && !list {
		return fmt.Errorf("%w: config %s: %s takes one value, not a list", errUsage, file, f.Name)
	}
	return setFlag(cmd, f.Name, "config "+file, values)
}

func setFlag(cmd *cobra.Command, name, source string, values []string) error {
	for _, v := range values {
		err := cmd.Flags().Set(name, v)
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			return fmt.Errorf("%w: %s: %s", errUsage, source, badValue(bad))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errUsage, source, err)
		}
	}
	return cmd.Flags().SetAnnotation(name, sourceNote, []string{source})
}

func envName(flag string) string {
	return "APOIDEA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readConfig reads the file's keys as the words of flags. A key that is no flag of any command is an error with a suggestion.
func readConfig(cmd *cobra.Command, file string) (map[string][]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", errUsage, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", errUsage, err)
	}
	return parseConfig(file, raw, flagNames(cmd.Root()))
}

// parseConfig reads the text of a file whose keys must be among the known.
func parseConfig(file string, raw []byte, known []string) (map[string][]string, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%w: config %s: longer than %d bytes", errUsage, file, maxConfig)
	}
	var doc map[string]any
	err := toml.Unmarshal(raw, &doc)
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := at.Position()
		return nil, fmt.Errorf("%w: config %s: line %d, column %d: %w", errUsage, file, row, column, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: config %s: %w", errUsage, file, err)
	}
	table := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(doc)) { // so that the same file gives the same error
		value := doc[key]
		if _, ok := value.(map[string]any); ok {
			return nil, fmt.Errorf("%w: config %s: [%s] is a table; keys are flags, without sections", errUsage, file, key)
		}
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%w: config %s: unknown key %q%s", errUsage, file, key, words.Nearest(key, known))
		}
		table[key] = texts(value)
	}
	return table, nil
}

func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		return []string{fmt.Sprint(value)}
	}
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.LocalFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		names = append(names, flagNames(sub)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
