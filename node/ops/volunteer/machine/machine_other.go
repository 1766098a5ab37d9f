//go:build !linux && !darwin && !windows && !freebsd

package machine

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// MeteredEvery is the interval of Metered queries.
const MeteredEvery = time.Minute

// This system has no supported source.

func (*Machine) battery(context.Context) volunteer.Fact     { return volunteer.Unknown }
func (*Machine) metered(context.Context) volunteer.Fact     { return volunteer.Unknown }
func (*Machine) idle(context.Context) (time.Duration, bool) { return 0, false }
