package main

import (
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/glossary"
)

// aboutWords is the glossary for a terminal.
func aboutWords() string {
	width := 0
	for _, w := range glossary.Words {
		width = max(width, len(w.Word))
	}
	var b strings.Builder
	for _, w := range glossary.Words {
		fmt.Fprintf(&b, "    %-*s  %s\n", width, w.Word, w.Means)
	}
	return "Terms of this project:\n\n" + b.String()
}

// glossaryPage is the glossary as docs/glossary.md has it.
func glossaryPage() string {
	var b strings.Builder
	b.WriteString("# Glossary\n\nTerms of this project; `apoidea help words` prints the same. A `--flag` after a term is the flag of `run` that sets it.\n\n| term | meaning |\n| --- | --- |\n")
	for _, w := range glossary.Words {
		fmt.Fprintf(&b, "| %s | %s |\n", w.Word, w.Means)
	}
	b.WriteString("\n<!-- Generated from node/glossary/glossary.go: go test ./cmd/apoidea -run TestGlossary -update-glossary -->\n")
	return b.String()
}
