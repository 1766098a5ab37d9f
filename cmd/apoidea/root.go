package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/logs"
	"github.com/apoidea/apoidea/node/ops/words"
)

// errUsage marks errors of flags and arguments.
var errUsage = settings.ErrUsage

// globals are the flags that every command shares.
type globals struct {
	dataDir  string
	config   string
	api      string
	token    string
	json     bool
	logLevel string
	logForm  string
	quiet    bool
}

// first is the output without a command.
const first = `Apoidea is a decentralized web crawler: one program, no coordinator, pages as WARC files.

Contribute this machine to a ring:
  apoidea run --profile public --contact https://you.example/crawler --dns-seed seeds.example.org

Crawl a synthetic web with eight local peers:
  apoidea cluster up -n 8 --web --until-idle

Diagnose the configuration and the running peer:
  apoidea doctor

List all commands: apoidea help
`

func newRoot() *cobra.Command {
	g := new(globals)
	root := &cobra.Command{
		Use:   "apoidea",
		Short: "Crawl the web with a decentralized ring of peers",
		Long: `Apoidea is a peer-to-peer web crawler. Peers form a ring. The hash of a URL's host selects the peer that owns the host; the owner assigns the
crawling to the neighbor that reaches the site fastest.

Every flag can also be set as APOIDEA_<FLAG> in the environment and as a key in a TOML file. In the variable, dashes become underscores, and spaces
separate the values of a repeatable flag. The file is given by --config, or is config.toml in the data directory (apoidea config init writes one).
Flags override the environment, which overrides the file. An APOIDEA_... variable that matches no flag is an error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no peer running, 4 timed out, 5 rejected by policy.`,
		Example: `  apoidea cluster up -n 8 --web --until-idle       # eight peers crawl a synthetic web here
  apoidea run https://example.org/ --contact https://me.example/crawler
  apoidea status --ring`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.CheckEnv(cmd.Root(), os.Environ()); err != nil {
				return err
			}
			return settings.Fill(cmd, g.config, os.LookupEnv)
		},
	}
	root.PersistentFlags().AddFlagSet(globalsOf(g))
	root.SetFlagErrorFunc(wrongFlag)
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Crawl:", []*cobra.Command{newRun(g), newCrawl(g), newJobs(g), newJob(g), newRefresh(g), newExport(g)}},
		{"Inspect:", []*cobra.Command{newStatus(g), newRing(g), newPeers(g), newHost(g), newWhy(g), newDashboard(g)}},
		{"Control a running peer:", []*cobra.Command{newLimits(g), newPause(g), newResume(g), newOptOut(g), newLeave(g)}},
		{"Diagnose and repair:", []*cobra.Command{newDoctor(g), newCheck(g), newRepair(g)}},
		{"Local clusters and experiments:", []*cobra.Command{newCluster(g), newWeb(g), newExperiment(g)}},
		{"Set up:", []*cobra.Command{newConfig(g), newSeed(g), newCompletion(), newVersion(g), newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, cmd := range part.commands {
			cmd.GroupID = part.title
			root.AddCommand(cmd)
		}
	}
	run, _, _ := root.Find([]string{"run"}) // added above
	root.AddCommand(newTopics(run)...)
	root.SetHelpCommandGroupID("Set up:")
	installHelp(root)
	groups(root)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), first)
		return err
	}
	return root
}

// globalsOf are the flags that every command shares.
func globalsOf(g *globals) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&g.dataDir, "data-dir", defaultDataDir(), "data directory; also selects the running peer")
	f.StringVar(&g.config, "config", "", "TOML configuration file (default config.toml in the data directory)")
	f.StringVar(&g.api, "api", "", "API address: unix socket or tcp:HOST:PORT (default in the data directory)")
	f.StringVar(&g.token, "token-file", "", "token file for --api on TCP and remote --metrics (default api.token in the data directory)")
	f.BoolVar(&g.json, "json", false, "print JSON: one document, or one per line for streams")
	f.StringVar(&g.logLevel, "log-level", "warn", "minimum log level: debug, info, warn or error")
	f.StringVar(&g.logForm, "log-format", "text", "log format: text or json")
	f.BoolVar(&g.quiet, "quiet", false, "print only results and errors")
	return f
}

// whom is the peer selected by the shared flags, for requests to it.
func (g *globals) whom() *node.Config {
	return &node.Config{API: g.api, TokenFile: g.token, DataDir: g.dataDir}
}

// addr is the API address of that peer.
func (g *globals) addr() string { return g.whom().APIAddr() }

// client returns a client of that peer.
func (g *globals) client() *control.Client { return g.whom().Client() }

// hints is the writer of hints for people, neither results nor errors.
func (g *globals) hints(w io.Writer) io.Writer {
	if g.quiet {
		return io.Discard
	}
	return w
}

// sayTo returns a function that prints a line for people, unless only results are requested.
func (g *globals) sayTo(w io.Writer) func(text string) {
	if g.json {
		w = io.Discard
	}
	return func(text string) { fmt.Fprintln(g.hints(w), text) }
}

// logger returns the log of a command, which limits repeated lines, and a function that ends it. A
// log on standard error also has the lines of libraries.
func (g *globals) logger(w io.Writer) (log *slog.Logger, done func(), err error) {
	h, err := g.handler(w)
	if err != nil {
		return nil, nil, err
	}
	limited := logs.New(h)
	if w == io.Writer(os.Stderr) {
		logs.Capture(limited)
	}
	return slog.New(limited), limited.Close, nil
}

func (g *globals) handler(w io.Writer) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		return nil, fmt.Errorf("%w: log-level %q: must be debug, info, warn or error", errUsage, g.logLevel)
	}
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: logs.Truncate}
	switch g.logForm {
	case "text":
		return slog.NewTextHandler(w, opt), nil
	case "json":
		return slog.NewJSONHandler(w, opt), nil
	default:
		return nil, fmt.Errorf("%w: log-format %q: must be text or json", errUsage, g.logForm)
	}
}

func defaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "apoidea")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "apoidea-data"
	}
	return filepath.Join(home, ".local", "share", "apoidea")
}

// version is set by release builds; otherwise the build's own information is used.
var version string

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
}

// noArgs, exactly, atLeast and atMost check the number of arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return wrongUsage(cmd, fmt.Sprintf("unknown command %q%s", args[0], suggestion(cmd, args[0])))
	}
	return wrongUsage(cmd, fmt.Sprintf("%q: %s takes no arguments", args[0], cmd.CommandPath()))
}

func exactly(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%s requires %s, not %d arguments", cmd.CommandPath(), what, len(args)))
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%s requires at least %s", cmd.CommandPath(), what))
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return wrongUsage(cmd, fmt.Sprintf("%q: %s takes at most %d argument", args[n], cmd.CommandPath(), n))
	}
}

// wrongUsage returns an error of the command line with a reference to its help.
func wrongUsage(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%w: %s (see `%s --help`)", errUsage, text, cmd.CommandPath())
}

// wrongFlag converts an error of a flag to one of usage, with a suggestion for an unknown flag.
func wrongFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongUsage(cmd, settings.BadValue(bad))
	}
	text := err.Error()
	if word, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		text += words.Nearest(word, known)
	}
	return wrongUsage(cmd, text)
}

// groups makes commands without an action print their help, and reject unknown subcommands.
func groups(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		groups(sub)
	}
	if !cmd.HasSubCommands() || cmd.RunE != nil {
		return
	}
	cmd.Args = noArgs
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

func suggestion(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return ", did you mean " + strings.Join(near, " or ") + "?"
	}
	if cmd.Name() == "job" && strings.Trim(word, "0123456789abcdef") == "" {
		return ", did you mean job show " + word + "?"
	}
	return ""
}

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
