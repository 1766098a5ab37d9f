package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// commandCases are about commands.
var commandCases = []scenario{
	{name: "config-init", words: "config init; config show, with and without the keys of a volunteer", run: configInit},
	{name: "limits-set", words: "what limits set, pause and resume print", run: limitsSet},
	{name: "env-typo", words: "APOIDEA_DELYA=2s", run: envTypo},
	{name: "experiment-files", words: "run.json of an experiment, and names in its tables", slow: true, run: experimentFiles},
}

func configInit(t *trial) error {
	for _, command := range []string{"init", "show"} {
		r, err := t.apoidea("config", command, "--data-dir", t.at("lab"))
		if err != nil {
			return err
		}
		t.want("config "+command+": exit status", r.code, 0)
		t.has("config "+command, r.text(), "profile", "contact", "dns-seed")
	}
	args := []string{"--data-dir", t.at("volunteer"), "--profile", "public", "--contact", "https://me.example/", "--dns-seed", "seeds.example.org"}
	r, err := t.apoidea(append([]string{"config", "init"}, args...)...)
	if err != nil {
		return err
	}
	t.want("with the three keys: exit status", r.code, 0)
	if r, err = t.apoidea("config", "show", "--data-dir", t.at("volunteer")); err != nil {
		return err
	}
	t.has("config show", r.text(), "https://me.example/", "seeds.example.org")
	text, err := os.ReadFile(filepath.Join(t.at("volunteer"), "config.toml"))
	t.has("config.toml", string(text), "\"public\"", "https://me.example/", "seeds.example.org")
	return err
}

func limitsSet(t *trial) error {
	p, err := t.up("p")
	if err != nil {
		return err
	}
	defer p.Kill()
	for _, step := range []struct{ command, expected string }{
		{"limits set bandwidth=2Mbit", "bandwidth: 2Mbit"}, {"limits set bandwidth=default", "bandwidth: none"}, {"pause", "paused"}, {"resume", "resumed"}, {"resume", "no pause"},
	} {
		r, err := t.apoidea(append(strings.Fields(step.command), "--data-dir", t.at("p"))...)
		if err != nil {
			return err
		}
		t.has(step.command, r.text(), step.expected)
		t.lacks(step.command, r.text(), "not paused")
	}
	return nil
}

func envTypo(t *trial) error {
	for _, command := range [][]string{{"run", "--data-dir", t.at("p")}, {"status", "--data-dir", t.at("p")}} {
		cmd := t.command(t, command...)
		cmd.Env = append(cmd.Env, "APOIDEA_DELYA=2s")
		r, err := finish(cmd)
		if err != nil {
			return err
		}
		t.want(command[0]+": exit status", r.code, 2)
		t.has(command[0], r.text(), "APOIDEA_DELYA", "APOIDEA_DELAY?")
	}
	return nil
}

func experimentFiles(t *trial) error {
	begin := time.Now()
	r, err := t.apoidea("experiment", "run", "placement", "-o", t.at("out"), "--quick")
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.Say("%.0f s, %d lines", time.Since(begin).Seconds(), strings.Count(r.text(), "\n"))
	text, err := os.ReadFile(filepath.Join(t.at("out"), "run.json"))
	if err != nil {
		return err
	}
	var run map[string]any
	if err := json.Unmarshal(text, &run); err != nil {
		return err
	}
	for _, fields := range [][]string{{"commit"}, {"flags", "command", "args"}, {"machine", "cpus", "cores"}} {
		i := slices.IndexFunc(fields, func(f string) bool { return run[f] != nil })
		t.holds(i >= 0, "run.json: "+strings.Join(fields, " or "), i >= 0, "a value")
	}
	table, err := os.ReadFile(filepath.Join(t.at("out"), "strategies.csv"))
	t.has("strategies.csv", string(table), "adaptive", "owner")
	return err
}
