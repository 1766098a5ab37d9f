package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

// execute runs a command line as main would, without the process.
func execute(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var buf bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&buf)
	root.SetErr(&buf)
	err = root.ExecuteContext(t.Context())
	return buf.String(), exitCode(err), err
}

func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"done":                 {nil, 0},
		"failed":               {errors.New("x"), 1},
		"interrupted":          {fmt.Errorf("%w; goes on", errInterrupted), 1},
		"flags":                {fmt.Errorf("%w: x", errUsage), 2},
		"usage of the peer":    {fmt.Errorf("post: %w", control.Usage("x")), 2},
		"no peer":              {&control.Error{Kind: control.KindNoPeer, Text: "x"}, 3},
		"deadline":             {fmt.Errorf("wait: %w", context.DeadlineExceeded), 4},
		"timeout of the peer":  {&control.Error{Kind: control.KindTimeout, Text: "x"}, 4},
		"refused":              {control.Refused("x"), 5},
		"joined with a failed": {errors.Join(errors.New("x"), control.Refused("y")), 5},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.toml")
	if err := os.WriteFile(file, []byte("max-deptth = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	taken := strings.TrimPrefix(site.URL, "http://")
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"version":                  {"version", 0, "apoidea "},
		"version as JSON":          {"version --json", 0, `"version"`},
		"alone":                    {"", 0, "apoidea help"},
		"help":                     {"help", 0, "Control a running peer:"},
		"help as a flag":           {"--help", 0, "Control a running peer:"},
		"a topic":                  {"help placement", 0, "Malet"},
		"a topic and command":      {"help limits", 0, "--trap-rules"},
		"a group alone":            {"cluster", 0, "Available Commands"},
		"completion":               {"completion bash", 0, "bash completion"},
		"unknown command":          {"stauts", 2, "did you mean status?"},
		"unknown command of group": {"ring lookpu", 2, "did you mean lookup?"},
		"unknown flag":             {"run --plcement x", 2, "did you mean placement?"},
		"no such shell":            {"completion fisch", 2, "did you mean fish?"},
		"bad value":                {"run --fetchers many", 2, `fetchers "many": must be a whole number`},
		"bad time":                 {"run --delay 3", 2, `delay "3": must be`},
		"bad address":              {"run --listen here --data-dir " + dir, 2, `listen "here"`},
		"bad seed":                 {"run ftp://x.example/ --data-dir " + dir, 2, `seed "ftp://x.example/"`},
		"bad URL of a job":         {"crawl ftp://x.example/ --data-dir " + dir, 2, `seed "ftp://x.example/"`},
		"bad place of a web":       {"web serve --listen here", 2, "must be HOST:PORT"},
		"no peers at all":          {"cluster up -n 0 --dir " + dir, 2, "peers 0"},
		"no URL":                   {"crawl", 2, "--seeds FILE"},
		"too many":                 {"host a b", 2, "not 2 arguments"},
		"arguments unasked for":    {"status x", 2, "takes no arguments"},
		"no such export":           {"export crdj", 2, "did you mean cdxj?"},
		"bad time of a filter":     {"export urls --since yesterday", 2, `--since "yesterday": must be a date`},
		"bad outcome of a filter":  {"export urls --outcome good", 2, "must be one of none, ok, duplicate"},
		"bad job of a filter":      {"export urls --job my-job", 2, `--job "my-job": must be a job ID`},
		"no peer":                  {"status --data-dir " + dir, 3, "no peer is running at " + dir},
		"no peer on TCP":           {"status --api tcp:127.0.0.1:1", 3, "no peer is running at 127.0.0.1:1"},
		"no peer there":            {"status --api tcp:" + taken + " --token-file " + token, 1, taken + " is "},
		"half an entry":            {"run --bootstrap /ip4/127.0.0.1/tcp/1 --data-dir " + dir, 2, "peers --addrs"},
		"public without contact":   {"run --profile public --data-dir " + dir, 5, "--contact"},
		"impolite":                 {"run --delay 1ms --data-dir " + dir, 2, "--allow-private"},
		"bad size":                 {"run --max-body huge --data-dir " + dir, 2, "max-body"},
		"bad source":               {"run --fetch-from here --data-dir " + dir, 2, "fetch-from"},
		"bad level":                {"run --log-level loud --data-dir " + dir, 2, "log-level"},
		"no cluster":               {"cluster status --dir " + dir, 2, "no cluster in"},
		"no cluster to kill in":    {"cluster kill 1 --dir " + dir, 2, "no cluster in"},
		"peer without number":      {"cluster kill one --dir " + dir, 2, "must be a number"},
		"nothing to stop":          {"cluster down --dir " + dir, 0, "no peer is running in"},
		"web without an end":       {"cluster up --web --dir " + dir, 2, "--until-idle"},
		"unknown key":              {"status --config " + file, 2, `unknown key "max-deptth", did you mean max-depth?`},
		"no such file":             {"status --config " + filepath.Join(dir, "none"), 2, "config"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, err := execute(t, strings.Fields(c.args)...)
			text := out
			if err != nil {
				text = err.Error()
			}
			if code != c.code || !strings.Contains(text, c.says) {
				t.Errorf("exit code %d, want %d, and %q, want %q in it", code, c.code, text, c.says)
			}
		})
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no short help", c.CommandPath())
		}
		if !c.HasSubCommands() && c.Example == "" && !c.IsAdditionalHelpTopicCommand() {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestStatusNames(t *testing.T) {
	// The names that the design promises; a change here breaks what others wrote.
	promised := `peer addrs version network state uptime_s pages bytes duplicates errors robots_denied refetched urls_seen urls_pending urls_leased
		hosts_owned hosts_leased ring peers`
	have := names(reflect.TypeFor[control.Status]())
	for name := range strings.FieldsSeq(promised) {
		if !have[name] {
			t.Errorf("status has no %q", name)
		}
	}
	for name := range strings.FieldsSeq("members predecessor successors arc stable") {
		if !names(reflect.TypeFor[control.RingSummary]())[name] {
			t.Errorf("ring of status has no %q", name)
		}
	}
	for name := range strings.FieldsSeq("peer addr rtt_ms role pages") {
		if !names(reflect.TypeFor[control.PeerLine]())[name] {
			t.Errorf("peers of status has no %q", name)
		}
	}
}

// names are the JSON names of a struct's fields that are never left out.
func names(t reflect.Type) map[string]bool {
	set := make(map[string]bool)
	for f := range t.Fields() {
		if f.Anonymous {
			for name := range names(f.Type) {
				set[name] = true
			}
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(rest, "omitempty") {
			set[name] = true
		}
	}
	return set
}

func TestFailures(t *testing.T) {
	other := errors.New("disk on fire")
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"none":               {nil, nil},
		"asked to leave":     {errors.Join(node.ErrStopped, nil), nil},
		"interrupted":        {fmt.Errorf("join: %w", context.Canceled), nil},
		"leave that failed":  {errors.Join(errors.Join(node.ErrStopped, other)), other},
		"failure by itself":  {other, other},
		"failure that wraps": {fmt.Errorf("run: %w", other), other},
	} {
		if got := failures(c.err); !errors.Is(got, c.want) || (c.want == nil) != (got == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSecondInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		second := make(chan time.Duration)
		first := time.Now()
		go func() {
			awaitSecond(signals, first)
			second <- time.Since(first)
		}()
		signals <- os.Interrupt // the echo
		time.Sleep(time.Second)
		signals <- os.Interrupt
		if at := <-second; at != time.Second {
			t.Errorf("the second interrupt was taken at %v, want 1s", at)
		}
	})
}

func TestPeersText(t *testing.T) {
	if one, two := peersText([]int{3}), peersText([]int{2, 5}); one != "peer 3" || two != "peers 2 5" {
		t.Errorf("%q, %q", one, two)
	}
}

func TestSocketPath(t *testing.T) {
	short := t.TempDir()
	if got := node.SocketPath(short); got != filepath.Join(short, "apoidea.sock") && len(short) < 80 {
		t.Errorf("socket %s of a short directory", got)
	}
	long := filepath.Join(short, strings.Repeat("x", 60), strings.Repeat("y", 60))
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	got := node.SocketPath(long)
	if len(got) > 104 && len(os.TempDir()) < 60 {
		t.Errorf("socket path of %d bytes: %s", len(got), got)
	}
	if other := node.SocketPath(filepath.Join(short, strings.Repeat("x", 60), strings.Repeat("z", 60))); other == got {
		t.Error("two directories have one socket")
	}
	t.Chdir(filepath.Dir(long))
	if relative := node.SocketPath(filepath.Base(long)); relative != got {
		t.Errorf("socket %s from within, %s from without", relative, got)
	}
}
