package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/apoidea/apoidea/node/control"
)

// printJSON writes one indented document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printLine writes one document of a stream.
func printLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say prints what a command has done: a document, a line, or nothing with --quiet.
func (g *globals) say(out io.Writer, document any, line string) error {
	if g.json {
		return printJSON(out, document)
	}
	if g.quiet {
		return nil
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// outcomeText sums a crawl up.
func outcomeText(c *control.Counters) string {
	return fmt.Sprintf("%d pages, %d duplicates, %d redirects, %d errors, %d denied by robots.txt", c.Pages, c.Duplicates, c.Redirects, c.Errors, c.RobotsDenied) + leftText(c)
}

// leftText tells what was left out on purpose, if anything was.
func leftText(c *control.Counters) string {
	text := ""
	if c.Traps > 0 {
		text += fmt.Sprintf(", %d left as traps", c.Traps)
	}
	if c.OutOfBudget > 0 {
		text += fmt.Sprintf(", %d left beyond a budget", c.OutOfBudget)
	}
	if c.LinksCut > 0 {
		text += fmt.Sprintf(", %d links cut", c.LinksCut)
	}
	return text
}

// legible is a text of others, as a site's certificate or another peer has it, for a terminal: signs that would command one, end the line or turn its direction are
// written out.
func legible(text string) string {
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

// errorText is an error for a terminal, of which some have several lines.
func errorText(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = legible(line)
	}
	return strings.Join(lines, "\n")
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// table prints rows of cells in columns.
func table(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = legible(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// short cuts a peer ID or key to what a person can compare.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[len(id)-8:]
}

func bytesText(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := int64(unit), 0
	for m := n / unit; m >= unit; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %cB", float64(n)/float64(div), "kMGTPE"[exp])
}

// seconds writes a number of them, which may be any that another peer says: not below 0, and not beyond what a Duration holds.
func seconds(s float64) string {
	const century = 100 * 365 * 24 * 3600
	switch {
	case s > century:
		return "over 100 years"
	case !(s > 0):
		s = 0
	}
	return (time.Duration(s*1000) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func number(n int64) string { return fmt.Sprint(n) }
