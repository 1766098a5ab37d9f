package main

import (
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/ops/glossary"
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
