package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node/ops/words"
)

// readConfig reads a file as flag values. An unknown key is an error with a suggestion.
func readConfig(cmd *cobra.Command, file string) (map[string][]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrUsage, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrUsage, err)
	}
	return parseConfig(file, raw, flagNames(cmd.Root()))
}

// parseConfig parses the text of a file with known keys.
func parseConfig(file string, raw []byte, known []string) (map[string][]string, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%w: config %s: larger than %d bytes", ErrUsage, file, maxConfig)
	}
	var doc map[string]any
	err := toml.Unmarshal(raw, &doc)
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := at.Position()
		return nil, fmt.Errorf("%w: config %s: line %d, column %d: %w", ErrUsage, file, row, column, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: config %s: %w", ErrUsage, file, err)
	}
	table := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(doc)) { // so that the same file gives the same error
		value := doc[key]
		if _, ok := value.(map[string]any); ok {
			return nil, fmt.Errorf("%w: config %s: [%s] is a table; keys are flag names, without sections", ErrUsage, file, key)
		}
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%w: config %s: unknown key %q%s", ErrUsage, file, key, words.Nearest(key, known))
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
