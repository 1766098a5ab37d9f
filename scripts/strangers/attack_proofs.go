package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackProofs asks for opt-outs of many sites that ask for none, so that the looks at sites of a
// minute are used up.
var attackProofs = attack{
	name: "proofs", does: "opt-outs of sites that ask for none, in numbers",
	make: func(ctx context.Context, t *target) error {
		return t.crowd(ctx, identities, func(s *stranger) {
			for i := 0; ctx.Err() == nil; i++ {
				_ = wishFor(ctx, s, fmt.Sprintf("s%d-%s.localhost", i, strings.ToLower(s.Self().String()[40:])))
			}
		})
	},
	// Another that asks is told to come back: that no site was looked at is no word on what it
	// shows.
	judge: func(ctx context.Context, s *scene, r *report) error {
		begun := time.Now()
		for i := 0; time.Since(begun) < joinTime; i++ {
			err := wishFor(ctx, &stranger{s.honest.net, s.honest.of}, fmt.Sprintf("honest%d.localhost", i))
			switch {
			case calls.CodeOf(err) == calls.CodeBusy:
				r.Say("an honest wish is told to come back")
				return nil
			case rpc.Refused(err) && strings.Contains(err.Error(), "too many"):
				return fmt.Errorf("an honest wish is refused for want of a look: %w", err)
			case err != nil && !rpc.Refused(err) && calls.CodeOf(err) != calls.CodeMoved:
				return errors.Join(err, ctx.Err())
			}
			_ = harness.Sleep(ctx, 20*time.Millisecond)
		}
		return errors.New("the looks of a minute were not used up")
	},
}

// wishes are what the owner of a domain is asked to note.
var wishes = rpc.Method[*wire.OptOut, *wire.OptOutReply]{Service: politeness.ServiceDomains, Tag: politeness.TagOptOut}

func wishFor(ctx context.Context, s *stranger, site string) error {
	ctx, cancel := context.WithTimeout(ctx, 4*callTime)
	defer cancel()
	_, err := wishes.Call(ctx, s, s.of, &wire.OptOut{Subject: "domain " + site, Action: "opt-out"})
	return err
}
