package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// filled parses a command line of run with an environment and a file, and returns what the flags
// came to.
func filled(t *testing.T, args []string, env map[string]string, file string) (Peer, Job, error) {
	t.Helper()
	var peer Peer
	var job Job
	var config string
	cmd := &cobra.Command{Use: "run", SilenceErrors: true, SilenceUsage: true}
	cmd.PersistentFlags().StringVar(&config, "config", "", "")
	peer.Add(cmd.Flags())
	job.Add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return Fill(cmd, config, func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		})
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "apoidea.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(slices.Clone(args), "--config", path)
	}
	cmd.SetArgs(args)
	err := cmd.Execute()
	return peer, job, err
}

func TestPrecedence(t *testing.T) {
	const file = "delay = \"3s\"\nfetchers = 3\nallow-private = true\nscope = [\"*.a\", \"*.b\"]\nmax-depth = 0\n"
	env := map[string]string{"APOIDEA_DELAY": "2s", "APOIDEA_BOOTSTRAP": "/ip4/1.2.3.4/tcp/1/p2p/x /ip4/1.2.3.4/tcp/2/p2p/y"}
	for name, c := range map[string]struct {
		args  []string
		env   map[string]string
		file  string
		delay time.Duration
	}{
		"default":              {nil, nil, "", time.Second},
		"file":                 {nil, nil, file, 3 * time.Second},
		"environment":          {nil, env, "", 2 * time.Second},
		"environment and file": {nil, env, file, 2 * time.Second},
		"flag and all":         {[]string{"--delay", "1ms"}, env, file, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			peer, job, err := filled(t, c.args, c.env, c.file)
			if err != nil {
				t.Fatal(err)
			}
			if peer.Config.Delay != c.delay {
				t.Errorf("delay %v, want %v", peer.Config.Delay, c.delay)
			}
			if c.env != nil && len(peer.Config.Bootstrap) != 2 {
				t.Errorf("bootstrap %q, want the two of the environment", peer.Config.Bootstrap)
			}
			if c.file != "" && (peer.Config.Fetchers != 3 || !peer.Config.AllowPrivate || !slices.Equal(job.asked.Scope, []string{"*.a", "*.b"}) || !slices.Equal(job.maxDepth, []string{"0"})) {
				t.Errorf("the file was not read: %+v %+v", peer, job)
			}
		})
	}
}

func TestFlagsReplaceLists(t *testing.T) {
	_, job, err := filled(t, []string{"--scope", "mine"}, map[string]string{"APOIDEA_SCOPE": "theirs"}, `scope = ["others"]`)
	if err != nil || !slices.Equal(job.asked.Scope, []string{"mine"}) {
		t.Errorf("scope %q, %v: want the flag's alone", job.asked.Scope, err)
	}
}

func TestWrongConfig(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		file string
		says string
	}{
		"unknown key":      {nil, "fetcher = 3", "did you mean fetchers?"},
		"nothing like it":  {nil, "quux-quux-quux = 3", `unknown key "quux-quux-quux"`},
		"no TOML":          {nil, "fetchers 3", "config"},
		"wrong type":       {nil, `fetchers = "many"`, "fetchers"},
		"list for a value": {nil, "fetchers = [1, 2]", "one value"},
		"section":          {nil, "[delay]\nx = 1", "without sections"},
		"environment":      {map[string]string{"APOIDEA_FETCHERS": "many"}, "", "APOIDEA_FETCHERS"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := filled(t, nil, c.env, c.file)
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one of usage with %q", err, c.says)
			}
		})
	}
}

// TestCheckEnv names variables that are mistaken for settings, and those that are none.
func TestCheckEnv(t *testing.T) {
	root := &cobra.Command{Use: "apoidea"}
	run := &cobra.Command{Use: "run"}
	new(Run).Add(run.Flags())
	root.AddCommand(run)
	for _, row := range []struct{ env, want string }{
		{"APOIDEA_DELYA=2s", "APOIDEA_DELYA, did you mean APOIDEA_DELAY?"},
		{"APOIDEA_QUITE_ANOTHER=", "APOIDEA_QUITE_ANOTHER"},
		{"APOIDEA_=1", "APOIDEA_"},
		{"APOIDEA_DELAY=2s", ""},
		{"APOIDEA_MAX_PAGES=5", ""},
		{"APOIDEA=/usr/bin/apoidea", ""},
		{"APOIDEA_FULL=1", ""},
		{"APOIDEA_PORT_4001_TCP_ADDR=10.0.0.1", ""},
		{"APOIDEA_SERVICE_HOST=10.0.0.1", ""},
		{"DELYA=2s", ""},
	} {
		err := CheckEnv(root, []string{"PATH=/bin", row.env})
		switch {
		case row.want == "" && err != nil, row.want != "" && (!errors.Is(err, ErrUsage) || !strings.HasSuffix(err.Error(), row.want)):
			t.Errorf("%s: error %v, want %q", row.env, err, row.want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"", "fetchers = 3", "scope = [\"a\", 1, true]", "[delay]\nx = 1", "a.b = 2", "fetchers = 1e400", "delay = 2026-01-01", "\x00", "fetcher = 1"} {
		f.Add([]byte(s))
	}
	cmd := &cobra.Command{}
	new(Run).Add(cmd.Flags())
	known := flagNames(cmd)
	f.Fuzz(func(t *testing.T, raw []byte) {
		table, err := parseConfig("f", raw, known)
		if err != nil && (table != nil || !errors.Is(err, ErrUsage)) {
			t.Fatalf("%q: %v with %v", raw, err, table)
		}
	})
}
