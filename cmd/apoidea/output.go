package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// ask queries the running peer and prints the answer, as JSON with --json.
func ask[T any](g *globals, cmd *cobra.Command, question func(*control.Client) (T, error), inWords func(io.Writer, T) error) error {
	c := g.client()
	defer c.Close()
	answer, err := question(c)
	if err != nil {
		return err
	}
	if g.json {
		return words.JSON(cmd.OutOrStdout(), answer)
	}
	return inWords(cmd.OutOrStdout(), answer)
}

// say prints the result of a command: a document, a line, or nothing with --quiet.
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
