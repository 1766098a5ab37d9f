package hosts

const (
	// SweepHosts are loaded in one step: each takes a look at the disk or two.
	SweepHosts = 64
	// SweepPasses bounds the hosts of the index that one step passes over, as they are in memory or
	// have other work.
	SweepPasses = 4096
	// sweepEvery is the pause between such steps once memory is full of hosts with URLs that wait.
	sweepEvery = 250
)

// sweep walks over the index of hosts with work and loads those that are not in memory: all of them
// after a start, and those that were dropped, in turn, when there are more than memory holds.
type sweep struct {
	Wanted  bool
	dropped bool // some host was dropped since the walk began
	Cursor  []byte
	NextAt  int64
}

func (s *sweep) Idle(now int64) bool { return s.NextAt > now }
