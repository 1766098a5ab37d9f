//go:build !linux && !darwin && !windows && !freebsd

package machine

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/volunteer"
)

// MeteredEvery is how often it is worth to ask what a link costs.
const MeteredEvery = time.Minute

// Of this system nothing is known that would tell.

func (*Machine) battery(context.Context) volunteer.Fact     { return volunteer.Unknown }
func (*Machine) metered(context.Context) volunteer.Fact     { return volunteer.Unknown }
func (*Machine) idle(context.Context) (time.Duration, bool) { return 0, false }
