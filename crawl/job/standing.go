package job

import "fmt"

// maxVersion bounds the version of a state, of which other peers take no higher one.
const maxVersion = 1 << 48

// Standing is the state of a job with its version, which grows with each change: all that peers
// which work for a job need to hear again and again.
type Standing struct {
	State   State  // never StateNone of a job that is known
	Version uint64 // of two, the higher holds
}

// Merge is what two standings of one job come to, in any order. Canceled stays canceled; else the
// higher version wins. Two of one version come from two sides of a broken ring: then that wins
// which does less to the web and keeps more of the job open: paused before running before done. The
// version is the higher one in any case.
func (s Standing) Merge(t Standing) Standing {
	won := s
	if t.rank() > s.rank() || t.rank() == s.rank() && (t.Version > s.Version || t.Version == s.Version && t.State.precedence() > s.State.precedence()) {
		won = t
	}
	won.Version = max(s.Version, t.Version)
	return won
}

// rank sets canceled above all versions.
func (s Standing) rank() int {
	if s.State == StateCanceled {
		return 1
	}
	return 0
}

func (s State) precedence() int {
	switch s {
	case StateDone:
		return 1
	case StateRunning:
		return 2
	case StatePaused:
		return 3
	case StateCanceled:
		return 4
	default:
		return 0
	}
}

// Validate refuses a standing that no registry writes.
func (s Standing) Validate() error {
	if s.State == StateNone || s.State >= stateEnd || s.Version == 0 || s.Version > maxVersion {
		return fmt.Errorf("no standing: state %d, version %d", s.State, s.Version)
	}
	return nil
}
