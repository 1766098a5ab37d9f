package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// ask puts a question to the running peer and prints its answer: as it is with --json, else in
// words.
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
