// Package words formats output for people and programs: tables, JSON, numbers, times, suggestions.
// Text from others passes through it before it reaches a terminal; control characters are escaped.
package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// JSON writes one indented document.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Line writes one document of a stream.
func Line(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table prints rows of cells in columns. The last cell of a row wraps at the terminal width.
func Table(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Legible(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	width, row := Width(w), 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, " \n")
		indent := 0
		if cells := rows[row]; len(cells) > 0 {
			indent = max(0, utf8.RuneCountInString(line)-utf8.RuneCountInString(Legible(cells[len(cells)-1])))
		}
		row++
		if _, err := fmt.Fprintln(w, Wrap(line, indent, width)); err != nil {
			return err
		}
	}
	return nil
}

// Wrap breaks a line at spaces, with the rest indented. A width of 0 is unlimited.
func Wrap(line string, indent, width int) string {
	if width == 0 || indent > width/2 {
		return line
	}
	out, column := "", 0
	for i, word := range strings.SplitAfter(line, " ") {
		n := utf8.RuneCountInString(word)
		if i > 0 && column > indent && column+utf8.RuneCountInString(strings.TrimRight(word, " ")) > width {
			out = strings.TrimRight(out, " ") + "\n" + strings.Repeat(" ", indent)
			column = indent
		}
		out += word
		column += n
	}
	return out
}

// Width returns the columns of a terminal, 0 if w is none.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// List prints rows as Table does, truncated to the terminal width.
func List(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	if err := Table(&b, rows); err != nil {
		return err
	}
	width := Width(w)
	for line := range strings.Lines(b.String()) {
		if cells := []rune(strings.TrimSuffix(line, "\n")); width > 0 && len(cells) > width {
			line = string(cells[:width-1]) + "…\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Legible escapes control characters, line ends and direction marks in text from others.
func Legible(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !unprintable(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}

// Error returns the text of an error, which may have several lines, for a terminal.
func Error(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = Legible(line)
	}
	return strings.Join(lines, "\n")
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
