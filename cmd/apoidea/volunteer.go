package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
)

// newCommandOf makes a command that tells the running peer one thing and prints one line.
func newCommandOf(g *globals, use, short, done string, tell func(*control.Client, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  apoidea " + use, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			if err := tell(c, cmd.Context()); err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]string{"state": done}, done)
		},
	}
}

func newPause(g *globals) *cobra.Command {
	return newCommandOf(g, "pause", "Fetch nothing until resume; the peer stays in the ring", "paused", (*control.Client).Pause)
}

func newResume(g *globals) *cobra.Command {
	return newCommandOf(g, "resume", "Go on fetching after pause", "crawling", (*control.Client).Resume)
}

func newLeave(g *globals) *cobra.Command {
	return newCommandOf(g, "leave", "Leave the ring in good order and end the peer", "leaving", (*control.Client).Leave)
}
