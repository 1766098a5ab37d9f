package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
	"github.com/apoidea/apoidea/node/ops/glossary"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/services/placer"
)

var updateGlossary = flag.Bool("update-glossary", false, "write docs/glossary.md anew")

// everyCommand calls fn with each command and topic.
func everyCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	cmd.InitDefaultHelpFlag()
	fn(cmd)
	for _, sub := range cmd.Commands() {
		everyCommand(sub, fn)
	}
}

// TestHelpFits: no line of a help is wider than a hundred columns, nor than a terminal where that
// is narrower, but for examples.
func TestHelpFits(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data") // help names the data directory, which may be longer than a line
	root := newRoot()
	root.InitDefaultHelpCmd()
	everyCommand(root, func(cmd *cobra.Command) {
		for line := range strings.Lines(helpText(cmd, helpWidth)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	})
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	run.Example = ""
	for line := range strings.Lines(helpText(run, 80)) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("run --help on 80 columns: %d: %s", n, line)
		}
	}
}

// TestFlagsOfRunHaveAGroup: help shows each flag of run in a group of settings, and no group names
// a flag that is not there.
func TestFlagsOfRunHaveAGroup(t *testing.T) {
	run, _, err := newRoot().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	run.InitDefaultHelpFlag()
	run.LocalFlags() // brings in those that all commands share
	in := make(map[string]int)
	for _, g := range settings.Groups {
		for _, name := range append(g.Flags(), g.Rare()...) {
			in[name]++
			if in[name] > 1 || run.Flags().Lookup(name) == nil {
				t.Errorf("%s in %q is twice in the groups of settings, or no flag of run", name, g.Title)
			}
		}
	}
	run.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if in[f.Name] == 0 && f.Name != "help" && !f.Hidden {
			t.Errorf("--%s of run is in no group: settings.Groups wants it", f.Name)
		}
	})
	shown := helpText(run, helpWidth) + rareSettings(run)
	if lines := strings.Count(helpText(run, helpWidth), "\n"); lines > 110 {
		t.Errorf("run --help has %d lines, at most 110: move settings to Rare", lines)
	}
	run.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if n := len(regexp.MustCompile(`(?m)^(      |  -\w, )--`+f.Name+` `).FindAllString(shown, -1)); n != 1 {
			t.Errorf("run --help shows --%s %d times", f.Name, n)
		}
	})
}

// TestHelpNamesWhatIsThere: flags that the texts of the help name are flags of some command, and
// topics leave out neither a limit nor a strategy.
func TestHelpNamesWhatIsThere(t *testing.T) {
	root := newRoot()
	known := []string{"help"}
	everyCommand(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	})
	named := regexp.MustCompile(`(?:^|[\s(])--([a-z][a-z-]*)`)
	everyCommand(root, func(cmd *cobra.Command) {
		for _, m := range named.FindAllStringSubmatch(cmd.Long+"\n"+cmd.Example, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("the help of %s names --%s, which is no flag", cmd.CommandPath(), m[1])
			}
		}
	})
	for _, k := range volunteer.Keys {
		if !strings.Contains(settings.AboutLimits, k.Name) {
			t.Errorf("help limits says nothing of %s", k.Name)
		}
	}
	for _, name := range placer.Names() {
		if !strings.Contains(settings.AboutPlacement, "\n    "+name+" ") {
			t.Errorf("help placement says nothing of %s", name)
		}
	}
}

// TestCommandsHaveAGroup: help lists each command in a group.
func TestCommandsHaveAGroup(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.GroupID == "" && cmd.IsAvailableCommand() {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
}

func TestFirstScreen(t *testing.T) {
	if n := strings.Count(first, "\n"); n > 15 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(first) {
		if len(line) > helpWidth {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// TestGlossary: docs/glossary.md has the words that help prints. Run with -update-glossary to write
// it.
func TestGlossary(t *testing.T) {
	const path = "../../docs/glossary.md"
	page := glossaryPage()
	if *updateGlossary {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { // a document
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != page {
		t.Errorf("%s is not that of the program (%v); write it by: go test ./cmd/apoidea -run TestGlossary -update-glossary", path, err)
	}
	for i, w := range glossary.Words {
		if i > 0 && strings.ToLower(w.Word) < strings.ToLower(glossary.Words[i-1].Word) {
			t.Errorf("%s stands behind %s", w.Word, glossary.Words[i-1].Word)
		}
	}
}

// glossaryPage is the glossary as docs/glossary.md has it.
func glossaryPage() string {
	var b strings.Builder
	b.WriteString("# Glossary\n\nTerms of this project; `apoidea help words` prints the same. A `--flag` after a term is the flag of `run` that sets it.\n\n| term | meaning |\n| --- | --- |\n")
	for _, w := range glossary.Words {
		fmt.Fprintf(&b, "| %s | %s |\n", w.Word, w.Means)
	}
	b.WriteString("\n<!-- Generated from node/ops/glossary/glossary.go: go test ./cmd/apoidea -run TestGlossary -update-glossary -->\n")
	return b.String()
}
