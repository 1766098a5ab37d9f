package machine

import (
	"context"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// MeteredEvery is the interval of Metered queries.
const MeteredEvery = time.Minute

func (m *Machine) battery(ctx context.Context) volunteer.Fact {
	out, err := m.Run(ctx, "/usr/bin/pmset", "-g", "batt")
	if err != nil {
		return volunteer.Unknown
	}
	return pmset(out)
}

// metered is unknown: the system reports it only through its own frameworks.
func (*Machine) metered(context.Context) volunteer.Fact { return volunteer.Unknown }

func (m *Machine) idle(ctx context.Context) (time.Duration, bool) {
	out, err := m.Run(ctx, "/usr/sbin/ioreg", "-c", "IOHIDSystem", "-d", "4")
	if err != nil {
		return 0, false
	}
	return ioreg(out)
}
