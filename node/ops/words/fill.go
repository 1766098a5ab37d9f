package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fill wraps text at the width. Lines without indent form paragraphs; an indented line is wrapped
// by itself, aligned with its last column, which two spaces separate.
func Fill(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, broken(strings.Join(paragraph, " "), 0, width)...)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " ")
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == line && line != "" {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		indent := len(line) - len(trimmed)
		if i := strings.LastIndex(trimmed, "  "); i >= 0 {
			indent += i + 2
		}
		out = append(out, broken(line, indent, width)...)
	}
	end()
	return strings.Join(out, "\n")
}

// broken splits a line; all parts but the first are indented.
func broken(line string, indent, width int) (lines []string) {
	for utf8.RuneCountInString(line) > width {
		head := string([]rune(line)[:width+1])
		at := strings.LastIndex(head, " ")
		if at <= indent {
			break // one long word
		}
		lines = append(lines, strings.TrimRight(line[:at], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}

// ShellQuote returns text as one word of a shell.
func ShellQuote(text string) string {
	if strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`/._-+:@=,%`, r)
	}) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
