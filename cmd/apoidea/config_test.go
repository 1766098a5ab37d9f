package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
)

// apoidea runs a command line in this process and returns what it printed.
func apoidea(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestConfigInit: what is written is in order as it stands and with every key set to its default,
// and is never replaced unasked.
func TestConfigInit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, settings.FileName)
	if _, err := apoidea(t, "config", "init", "--data-dir", dir); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := apoidea(t, "config", "show", "--config", path); err != nil || strings.Contains(out, "config "+path) {
		t.Errorf("as written: %q, %v", out, err)
	}
	set, keys := "", 0
	for line := range strings.Lines(string(written)) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") && strings.Contains(line, " = ") {
			line, keys = line[1:], keys+1
		}
		if strings.HasPrefix(line, "contact =") {
			line = "contact = \"https://me.example/\"\n"
		}
		set += line
	}
	if keys < 40 {
		t.Errorf("only %d keys stand in it", keys)
	}
	all := filepath.Join(t.TempDir(), "all.toml")
	if err := os.WriteFile(all, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := apoidea(t, "config", "show", "--config", all); err != nil {
		t.Errorf("with every key at its default: %v", err)
	}
	if err := os.WriteFile(path, []byte("fetchers = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := apoidea(t, "config", "init", "--data-dir", dir); exitCode(err) != exitUsage {
		t.Errorf("replaced unasked: %v", err)
	}
	if raw, _ := os.ReadFile(path); string(raw) != "fetchers = 5\n" {
		t.Errorf("the file that was there reads %q", raw)
	}
	if out, err := apoidea(t, "config", "init", "--data-dir", dir, "--force"); err != nil || !strings.Contains(out, "profile, contact, dns-seed") {
		t.Errorf("%q, %v", out, err)
	}
	if raw, _ := os.ReadFile(path); !bytes.Equal(raw, written) {
		t.Error("--force did not replace it")
	}
}

// TestConfigInitOfVolunteer checks that keys given as flags are set in the file, and that the
// command names those that a volunteer needs.
func TestConfigInitOfVolunteer(t *testing.T) {
	t.Setenv("APOIDEA_DELAY", "3s") // of this machine, not of the file
	dir := t.TempDir()
	out, err := apoidea(t, "config", "init", "--data-dir", dir, "--profile", "public", "--contact", "https://me.example/", "--dns-seed", "seeds.example.org")
	if err != nil || !strings.Contains(out, "written: ") || strings.Contains(out, "volunteer") {
		t.Fatalf("%q, %v", out, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, settings.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`profile = "public"`, `contact = "https://me.example/"`, `dns-seed = ["seeds.example.org"]`, `#delay = "1s"`} {
		if !strings.Contains(string(raw), "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	if out, err := apoidea(t, "config", "show", "--data-dir", dir); err != nil || strings.Count(out, "config "+dir) != 3 {
		t.Errorf("show: %q, %v", out, err)
	}
}

// TestConfigShow: each value with where it comes from.
func TestConfigShow(t *testing.T) {
	dir := t.TempDir()
	file := "fetchers = 5\ndelay = \"3s\"\nbandwidth = \"2Mbit\"\nscope = [\"a\", \"b\"]\npause-on-battery = true\n"
	if err := os.WriteFile(filepath.Join(dir, settings.FileName), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APOIDEA_DELAY", "2s")
	t.Setenv("APOIDEA_SCHEDULE", "mon-fri 22:00-07:00; sat,sun")
	out, err := apoidea(t, "config", "show", "--data-dir", dir, "--replicas", "2", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var all []settings.Effective
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	got := make(map[string]settings.Effective)
	for _, e := range all {
		got[e.Key] = e
	}
	where := "config " + filepath.Join(dir, settings.FileName)
	for key, want := range map[string]settings.Effective{
		"fetchers":         {Value: "5", Source: where},
		"bandwidth":        {Value: "2Mbit", Source: where},
		"pause-on-battery": {Value: "true", Source: where},
		"delay":            {Value: "2s", Source: "environment APOIDEA_DELAY"},
		"schedule":         {Value: "mon-fri 22:00-07:00; sat,sun", Source: "environment APOIDEA_SCHEDULE"},
		"replicas":         {Value: "2", Source: "flag"},
		"network":          {Value: "main", Source: "default"},
	} {
		if e := got[key]; e.Value != want.Value || e.Source != want.Source {
			t.Errorf("%s: %v from %q, want %v from %q", key, e.Value, e.Source, want.Value, want.Source)
		}
	}
	if list, ok := got["scope"].Value.([]any); !ok || len(list) != 2 {
		t.Errorf("scope: %v, want a list of two", got["scope"].Value)
	}
}

func TestConfigShowChecks(t *testing.T) {
	for name, c := range map[string]struct {
		file, says string
		code       int
	}{
		"in order":            {"bandwidth = \"2Mbit\"\nuntil-idle = true\n", "2Mbit", exitDone},
		"unknown key":         {"band-width = \"2Mbit\"\n", "did you mean bandwidth?", exitUsage},
		"wrong value":         {"bandwidth = \"2Mb\"\n", "bandwidth \"2Mb\"", exitUsage},
		"wrong schedule":      {"schedule = \"mon 25:00-26:00\"\n", "25:00", exitUsage},
		"of another command":  {"page-bytes = 3\n", "KEY", exitDone},
		"does not fit":        {"delay = \"1ms\"\n", "allow-private", exitUsage},
		"public, nameless":    {"profile = \"public\"\n", "contact", exitRefused},
		"a job that is wrong": {"retries = 100\n", "retries 100", exitUsage},
		"no TOML":             {"fetchers = 3\ndelay = = 3\n", "line 2, column", exitUsage},
		"a section":           {"[peer]\nfetchers = 3\n", "[peer] is a table", exitUsage},
		"no number":           {"fetchers = \"many\"\n", "fetchers \"many\": must be a whole number", exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "some.toml")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := apoidea(t, "config", "show", "--config", path, "--data-dir", t.TempDir())
			if err != nil {
				out = err.Error()
			}
			if strings.Contains(out, ": "+errUsage.Error()) {
				t.Errorf("%q: what kind of error it is stands first, or nowhere", out)
			}
			if exitCode(err) != c.code || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, %q: want %d with %q", exitCode(err), out, c.code, c.says)
			}
		})
	}
}

// TestConfigOfAnother: a file in the data directory is the peer's own, and says nothing to
// clusters.
func TestConfigOfAnother(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, settings.FileName), []byte("data-dir = \"/elsewhere\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := apoidea(t, "config", "show", "--data-dir", dir); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "/elsewhere") {
		t.Errorf("a file that names another directory: %v", err)
	}
	if _, err := apoidea(t, "experiment", "list", "--data-dir", dir); err != nil {
		t.Errorf("it was read for an experiment: %v", err)
	}
}

func TestAssignments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string // empty: right
	}{
		"right":        {[]string{"bandwidth=2Mbit", "schedule=mon 10:00-11:00; tue"}, ""},
		"taken back":   {[]string{"bandwidth=default"}, ""},
		"no value":     {[]string{"bandwidth"}, "KEY=VALUE"},
		"unknown":      {[]string{"band-width=2Mbit"}, "did you mean bandwidth?"},
		"wrong value":  {[]string{"fetchers=none"}, "fetchers \"none\""},
		"the same key": {[]string{"fetchers=1", "fetchers=2"}, "twice"},
	} {
		_, err := assignments(c.args)
		if c.says == "" && err != nil || c.says != "" && (exitCode(err) != exitUsage || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want one of usage with %q", name, err, c.says)
		}
	}
}
