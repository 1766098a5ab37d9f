package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/cmd/apoidea/settings"
)

var updateCLI = flag.Bool("update-cli", false, "write docs/cli.md")

const sharedFlags = "Flags of every command:"

// TestCLIDoc checks that docs/cli.md is current. Run with -update-cli to write it.
func TestCLIDoc(t *testing.T) {
	const path = "../../docs/cli.md"
	page := cliPage()
	if *updateCLI {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { // a document
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != page {
		t.Errorf("%s is not current (%v); update it: go test ./cmd/apoidea -run TestCLIDoc -update-cli", path, err)
	}
}

// cliPage returns docs/cli.md: each command with its short text, usage, examples and flags.
func cliPage() string {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.PersistentFlags().Lookup("data-dir").DefValue = "~/.local/share/apoidea" // not that of this machine
	cluster, _, _ := root.Find([]string{"cluster"})
	cluster.PersistentFlags().Lookup("dir").DefValue = "~/.local/share/apoidea/cluster"
	var b strings.Builder
	b.WriteString("# Command reference\n\nAll commands of `apoidea` with their usage, examples and flags. `apoidea COMMAND --help` prints more about each.\n\n")
	for _, group := range root.Groups() {
		var links []string
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && cmd.IsAvailableCommand() {
				links = append(links, fmt.Sprintf("[%s](#%s)", cmd.Name(), strings.ReplaceAll(cmd.CommandPath(), " ", "-")))
			}
		}
		fmt.Fprintf(&b, "- %s %s\n", group.Title, strings.Join(links, ", "))
	}
	fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", strings.TrimSuffix(sharedFlags, ":"), section(usage(root), "Flags:"))
	for _, group := range root.Groups() {
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				everyCommand(cmd, func(cmd *cobra.Command) { writeCommand(&b, cmd) })
			}
		}
	}
	b.WriteString("\n<!-- Generated from the commands: go test ./cmd/apoidea -run TestCLIDoc -update-cli -->\n")
	return b.String()
}

func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.IsAvailableCommand() {
		return
	}
	if f := cmd.Flags().Lookup("help"); f != nil {
		f.Hidden = true
	}
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
	text := without(usage(cmd), sharedFlags)
	if cmd.Name() != "run" && cmd.Flags().Lookup("placement") != nil {
		for _, g := range settings.Groups {
			text = without(text, g.Title)
		}
		kinds := map[bool]string{true: "peer and job", false: "peer"}[cmd.Flags().Lookup("seeds") != nil]
		fmt.Fprintf(b, "Also takes the %s flags of [run](#apoidea-run).\n", kinds)
	}
	if i := strings.Index(text, "\nDetails of a command:"); i >= 0 {
		text = text[:i]
	}
	fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(text))
	if cmd.Name() == "run" {
		topic, _, _ := cmd.Root().Find([]string{"settings"})
		fmt.Fprintf(b, "\n### Further settings (apoidea help settings)\n\n```text\n%s\n```\n", strings.TrimSpace(helpText(topic, helpWidth)))
	}
}

func usage(cmd *cobra.Command) string {
	var out bytes.Buffer
	cmd.SetOut(&out)
	_ = cmd.Usage()
	return out.String()
}

// section returns the lines below a title, up to an empty line.
func section(text, title string) string {
	_, rest, _ := strings.Cut(text, "\n"+title+"\n")
	rows, _, _ := strings.Cut(rest, "\n\n")
	return strings.TrimRight(rows, "\n") + "\n"
}

// without removes a title and the lines below it, up to an empty line.
func without(text, title string) string {
	before, rest, found := strings.Cut(text, "\n"+title+"\n")
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	return before + "\n" + after
}

// imperatives are the verbs that a short text may begin with.
var imperatives = strings.Fields("Add Cancel Change Check Contact Crawl Diagnose Draw Explain Export Find Generate Kill List Make Manage Opt Pause Post Print " +
	"Repair Restart Resume Run Serve Show Start Stop Withdraw Write Leave Help")

// replaced are words and spellings that docs and help replace by the terms of the field.
var replaced = regexp.MustCompile(`(?i)\b(manners|mends?|mended|custody|strangers?|newcomers?|whoever|whom|whose|somebody|nobody|tells?|told|says?|wish(es)?|cure|neighbours?|anew|` +
	`put off|left alone|cancelled|dialled|grey|colour|behaviour|licence)\b`)

var handDefault = regexp.MustCompile(`\(default [^)]*\)`)

// TestHelpStyle checks the form of the help: short texts are imperatives of at most 60 characters,
// flags have at most 12 words beside their default, and no text has a replaced word.
func TestHelpStyle(t *testing.T) {
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if n := utf8.RuneCountInString(cmd.Short); n == 0 || n > 60 || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short text of %d characters, or with a period: %s", path, n, cmd.Short)
		}
		if verb := strings.TrimRight(strings.Fields(cmd.Short + " -")[0], ","); !cmd.IsAdditionalHelpTopicCommand() && !slices.Contains(imperatives, verb) {
			t.Errorf("%s: %q is not in the list of imperatives", path, verb)
		}
		if word := replaced.FindString(cmd.Short + "\n" + cmd.Long); word != "" && cmd.Name() != "experiments" && cmd.Name() != "words" {
			t.Errorf("%s: help has %q", path, word)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := len(strings.Fields(handDefault.ReplaceAllString(f.Usage, ""))); n > 12 || n == 0 {
				t.Errorf("%s --%s: %d words: %s", path, f.Name, n, f.Usage)
			}
			if word := replaced.FindString(f.Usage); word != "" {
				t.Errorf("%s --%s: help has %q", path, f.Name, word)
			}
			if last, _ := utf8.DecodeLastRuneInString(f.Usage); last == '.' || unicode.IsSpace(last) {
				t.Errorf("%s --%s: help ends in %q", path, f.Name, last)
			}
		})
	})
}
