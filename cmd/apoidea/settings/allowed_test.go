package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node"
)

// TestAllowPrivate: the switch permits all, prefixes what is in them, in whichever form they are
// given: behind = or a space, in a file, in the environment.
func TestAllowPrivate(t *testing.T) {
	for name, c := range map[string]struct {
		line, file, env string
		all             bool
		prefixes        string
		rest            []string
	}{
		"nothing":             {},
		"the switch":          {line: "--allow-private http://127.0.0.1/", all: true, rest: []string{"http://127.0.0.1/"}},
		"the switch, off":     {line: "--allow-private=false"},
		"a seed without http": {line: "--allow-private 127.0.0.1", all: true, rest: []string{"127.0.0.1"}},
		"a prefix":            {line: "--allow-private=10.0.0.0/8 http://a/", prefixes: "10.0.0.0/8", rest: []string{"http://a/"}},
		"behind a space":      {line: "--allow-private 10.0.0.0/8 http://a/", prefixes: "10.0.0.0/8", rest: []string{"http://a/"}},
		"several":             {line: "--allow-private 10.0.0.0/8 --allow-private fd00::/8 http://a/", prefixes: "10.0.0.0/8 fd00::/8", rest: []string{"http://a/"}},
		"both forms":          {line: "--allow-private=10.1.2.3 --allow-private 192.168.7.9/16", prefixes: "10.1.2.3/32 192.168.0.0/16"},
		"mapped":              {line: "--allow-private=::ffff:10.0.0.0/104", prefixes: "10.0.0.0/8"},
		"a file's switch":     {file: "allow-private = true", all: true},
		"a file's list":       {file: `allow-private = ["10.0.0.0/8", "fd00::/8"]`, prefixes: "10.0.0.0/8 fd00::/8"},
		"a file's prefix":     {file: `allow-private = "10.0.0.0/8"`, prefixes: "10.0.0.0/8"},
		"the environment":     {env: "10.0.0.0/8 192.168.0.0/16", prefixes: "10.0.0.0/8 192.168.0.0/16"},
		"the environment, on": {env: "true", all: true},
		"a flag beats both":   {line: "--allow-private 10.0.0.0/8", file: "allow-private = true", env: "true", prefixes: "10.0.0.0/8"},
	} {
		t.Run(name, func(t *testing.T) {
			var peer Peer
			cmd := &cobra.Command{Use: "run"}
			peer.Add(cmd.Flags())
			if err := cmd.ParseFlags(strings.Fields(c.line)); err != nil {
				t.Fatal(err)
			}
			file := ""
			if c.file != "" {
				file = filepath.Join(t.TempDir(), "config.toml")
				if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env := func(key string) (string, bool) {
				if c.env == "" || key != "APOIDEA_ALLOW_PRIVATE" {
					return "", false
				}
				return c.env, true
			}
			if err := Fill(cmd, file, env); err != nil {
				t.Fatal(err)
			}
			rest := peer.TakePrefixes(cmd.Flags().Args())
			if got := strings.Trim(fmt.Sprint(peer.Config.AllowPrefixes), "[]"); peer.Config.AllowPrivate != c.all || got != c.prefixes || !slices.Equal(rest, c.rest) {
				t.Errorf("all %v, prefixes %s, rest %q", peer.Config.AllowPrivate, got, rest)
			}
		})
	}
	for _, bad := range []string{"--allow-private=10.0.0.0/33", "--allow-private=home", "--allow-private=fe80::1%eth0"} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		new(Peer).Add(flags)
		if err := flags.Parse([]string{bad}); err == nil || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	c := node.DefaultConfig("dir", node.ProfileLab)
	if c.AllowPrivate || len(c.AllowPrefixes) > 0 {
		t.Error("permitted by default")
	}
}
