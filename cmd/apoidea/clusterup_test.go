package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/ops/words"
)

func TestPassThrough(t *testing.T) {
	g := new(globals)
	dir := ""
	cmd := newClusterUp(g, &dir)
	err := cmd.ParseFlags(strings.Fields("-n 3 --delay 10ms --allow-private --bootstrap a --bootstrap b --fetch-from 127.0.0.1 --max-depth 2 --until-idle"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--allow-private=true", "--bootstrap=a", "--bootstrap=b", "--delay=10ms"}
	if got := passThrough(cmd); !slices.Equal(got, want) {
		t.Errorf("passed on %q, want %q", got, want)
	}
}

// TestNextSteps: what a new cluster says is at most three lines, each a command line that is
// understood as it stands.
func TestNextSteps(t *testing.T) {
	for _, ended := range []bool{true, false} {
		text := strings.TrimPrefix(nextSteps("/tmp/ring", ended), "next: ")
		if n := strings.Count(text, "\n"); n > 3 {
			t.Errorf("%d lines: %s", n, text)
		}
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			args := strings.Fields(line)
			cmd, rest, err := newRoot().Find(args[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || args[0] != "apoidea" || !strings.Contains(line, "/tmp/ring") {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"/tmp/ring-1_b.c": "/tmp/ring-1_b.c", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "über": "über",
	} {
		if got := words.ShellQuote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
