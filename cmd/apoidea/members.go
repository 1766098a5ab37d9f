package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
)

func newRingInvite(g *globals) *cobra.Command {
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "invite PEER-ID",
		Short: "Make a peer a member of a ring by invitation",
		Long: `Make a peer a member of a ring by invitation (--admission invite). A chain of at most three certificates leads from the founder to a member; a member with three
cannot invite. The certificate is printed, and sent to the peer if it can be reached (else: apoidea ring accept). While this peer runs, it renews the
certificate of the other.`,
		Example: "  apoidea ring invite 12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp\n  apoidea ring invite 12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp --for 168h --json",
		Args:    exactly("a peer ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Invitation, error) { return c.Invite(cmd.Context(), args[0], valid) }, show.Invitation)
		},
	}
	cmd.Flags().DurationVar(&valid, "for", 0, "validity of the certificate, at most that of this peer's (default 720h)")
	return cmd
}

func newRingRevoke(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PEER-ID",
		Short: "Withdraw the membership of a peer and of those it invited",
		Long: `End the membership of a peer and of those that it invited; they continue as workers. Run it on the founder, or on an issuer of the peer's chain.
Another member can invite the peer again; --promote does not.`,
		Example: "  apoidea ring revoke 12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp",
		Args:    exactly("a peer ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			if err := c.Revoke(cmd.Context(), args[0]); err != nil {
				return err
			}
			return g.say(cmd.OutOrStdout(), map[string]string{"revoked": args[0]}, "revoked: "+args[0])
		},
	}
}

func newRingAccept(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "accept CERTIFICATE",
		Short:   "Add the certificate that ring invite printed",
		Long:    "Accept a certificate printed by ring invite. It is required only if ring invite did not reach this peer.",
		Example: "  apoidea ring accept \"$(cat certificate)\"",
		Args:    exactly("a certificate"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Admission, error) { return c.Accept(cmd.Context(), args[0]) }, show.Accepted)
		},
	}
}
