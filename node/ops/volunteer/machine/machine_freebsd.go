package machine

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// MeteredEvery is the interval of Metered queries.
const MeteredEvery = time.Minute

func (m *Machine) battery(ctx context.Context) volunteer.Fact {
	out, err := m.Run(ctx, "/sbin/sysctl", "-n", "hw.acpi.acline")
	if err != nil {
		return volunteer.Unknown
	}
	return acline(out)
}

// metered is unknown: the system does not report it.
func (*Machine) metered(context.Context) volunteer.Fact { return volunteer.Unknown }

// idle queries the X server if the peer was started from a desktop.
func (m *Machine) idle(ctx context.Context) (time.Duration, bool) {
	if m.Env("DISPLAY") == "" {
		return 0, false
	}
	out, err := m.Run(ctx, "xprintidle")
	if err != nil {
		return 0, false
	}
	return milliseconds(out)
}
