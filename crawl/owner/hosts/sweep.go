package hosts

const (
	// SweepHosts is the number of hosts loaded in one step, at one or two disk reads each.
	SweepHosts = 64
	// SweepPasses bounds the index entries that one step skips, since they are in memory or have other
	// work.
	SweepPasses = 4096
	// sweepEvery is the pause in ms between such steps once memory is full of hosts with waiting URLs.
	sweepEvery = 250
)

// sweep iterates over the index of hosts with work and loads those that are not in memory: all of
// them after a start, and evicted hosts in turn when memory cannot hold all.
type sweep struct {
	Wanted  bool
	dropped bool // some host was evicted since the iteration began
	Cursor  []byte
	NextAt  int64
}

func (s *sweep) Idle(now int64) bool { return s.NextAt > now }
