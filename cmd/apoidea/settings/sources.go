package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node/ops/words"
)

// ErrUsage marks errors of flags and arguments.
var ErrUsage = errors.New("wrong usage")

const (
	// FileName is the default configuration file in a data directory.
	FileName = "config.toml"
	// maxConfig bounds a configuration file, in bytes.
	maxConfig = 1 << 20
	// sourceNote is the annotation with the source of a flag that the command line did not set.
	sourceNote = "source"
)

// File returns the configuration file of a command: the one set by flag or environment, else that
// of the data directory, if it exists.
func File(cmd *cobra.Command, named string, env func(string) (string, bool)) (file string, implied bool) {
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
	path = filepath.Join(path, FileName)
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	return path, true
}

// ownConfig reports whether a command concerns the peer of the data directory, so that its
// configuration applies. Others must not fail because of it.
func ownConfig(cmd *cobra.Command) bool {
	words := strings.Fields(cmd.CommandPath())
	if len(words) < 2 {
		return false
	}
	switch words[1] {
	case "cluster", "experiment", "web", "seed", "version", "help", "completion":
		return false
	case "config":
		return cmd.Name() == "show"
	default:
		return true
	}
}

// Fill sets flags that were not given from the environment, then from the TOML file.
func Fill(cmd *cobra.Command, file string, env func(string) (string, bool)) error {
	file, implied := File(cmd, file, env)
	table, err := readConfig(cmd, file)
	if err != nil {
		return err
	}
	if dir, ok := table["data-dir"]; ok && implied && (len(dir) != 1 || filepath.Clean(dir[0]) != filepath.Dir(file)) {
		return fmt.Errorf("%w: config %s: data-dir %q: differs from the directory of the file; select the file with --config", ErrUsage, file, dir)
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
		return fmt.Errorf("%w: config %s: %s takes one value, not a list", ErrUsage, file, f.Name)
	}
	return setFlag(cmd, f.Name, "config "+file, values)
}

func setFlag(cmd *cobra.Command, name, source string, values []string) error {
	for _, v := range values {
		err := cmd.Flags().Set(name, v)
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			return fmt.Errorf("%w: %s: %s", ErrUsage, source, BadValue(bad))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUsage, source, err)
		}
	}
	return cmd.Flags().SetAnnotation(name, sourceNote, []string{source})
}

// BadValue describes an invalid value: flag, value and expected form.
func BadValue(bad *pflag.InvalidValueError) string {
	f := bad.GetFlag()
	wanted := map[string]string{
		"int": "a whole number", "uint64": "a non-negative whole number", "float64": "a number", "bool": "true or false", "duration": "a duration with unit, such as 500ms, 30s or 2h",
	}[f.Value.Type()]
	if wanted == "" {
		return fmt.Sprintf("%s %q: %v", f.Name, bad.GetValue(), bad.Unwrap())
	}
	return fmt.Sprintf("%s %q: must be %s", f.Name, bad.GetValue(), wanted)
}

// envPrefix is the prefix of variables that are settings.
const envPrefix = "APOIDEA_"

// otherEnv are the variables with that prefix that cobra's completion and the scripts and tests of
// this project use.
var otherEnv = []string{
	"APOIDEA_ACTIVE_HELP", "APOIDEA_COMPLETION_DESCRIPTIONS", "APOIDEA_DOCS", "APOIDEA_FULL", "APOIDEA_INSTALL", "APOIDEA_NAT_PEER",
}

// CheckEnv returns an error for the first variable of environ that has the prefix and matches no
// flag. Kubernetes sets APOIDEA_SERVICE_HOST, APOIDEA_PORT and the like for a service called
// apoidea; they are allowed.
func CheckEnv(root *cobra.Command, environ []string) error {
	var known []string
	for _, flag := range flagNames(root) {
		known = append(known, envName(flag))
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		service := rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
		if ok && !service && !slices.Contains(known, name) && !slices.Contains(otherEnv, name) {
			return fmt.Errorf("%w: environment: unknown setting %s%s", ErrUsage, name, words.Nearest(name, known))
		}
	}
	return nil
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
