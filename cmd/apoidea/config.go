package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fillFlags sets the flags that were not given from the environment and from the TOML file, in that order of precedence.
func fillFlags(cmd *cobra.Command, file string, env func(string) (string, bool)) error {
	if file == "" {
		file, _ = env(envName("config"))
	}
	table, err := readConfig(cmd, file)
	if err != nil {
		return err
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil || f.Name == "config" || f.Name == "help" {
			return
		}
		_, list := f.Value.(pflag.SliceValue)
		if v, ok := env(envName(f.Name)); ok {
			values := []string{v}
			if list {
				values = strings.Fields(v)
			}
			failed = setFlag(cmd, f.Name, "environment "+envName(f.Name), values)
			return
		}
		v, ok := table[f.Name]
		switch {
		case !ok:
		case len(v) != 1 && !list:
			failed = fmt.Errorf("%w: config %s: %s takes one value, not a list", errUsage, file, f.Name)
		default:
			failed = setFlag(cmd, f.Name, "config "+file, v)
		}
	})
	return failed
}

func setFlag(cmd *cobra.Command, name, source string, values []string) error {
	for _, v := range values {
		if err := cmd.Flags().Set(name, v); err != nil {
			return fmt.Errorf("%w: %s: %w", errUsage, source, err)
		}
	}
	return nil
}

func envName(flag string) string {
	return "APOIDEA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readConfig reads the file's keys as the words of flags. A key that is no flag of any command is an error with a suggestion.
func readConfig(cmd *cobra.Command, file string) (map[string][]string, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", errUsage, err)
	}
	var doc map[string]any
	if err := toml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%w: config %s: %w", errUsage, file, err)
	}
	known := flagNames(cmd.Root())
	table := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(doc)) { // so that the same file gives the same error
		value := doc[key]
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%w: config %s: unknown key %q%s", errUsage, file, key, nearest(key, known))
		}
		if _, ok := value.(map[string]any); ok {
			return nil, fmt.Errorf("%w: config %s: %s is a table; keys are flags, without sections", errUsage, file, key)
		}
		table[key] = words(value)
	}
	return table, nil
}

func words(value any) []string {
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

// nearest suggests the known word with the smallest edit distance, if it is near at all.
func nearest(word string, known []string) string {
	best, at := 4, ""
	for _, k := range known {
		if d := editDistance(word, k); d < best {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return ", did you mean " + at + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
