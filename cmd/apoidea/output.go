package main

import (
	"fmt"
	"io"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// say prints what a command has done: a document, a line, or nothing with --quiet.
func (g *globals) say(out io.Writer, document any, line string) error {
	if g.json {
		return words.JSON(out, document)
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
