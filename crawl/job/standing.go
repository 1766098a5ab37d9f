package job

import (
	"cmp"
	"fmt"

	"github.com/apoidea/apoidea/crawl/wire"
)

// maxVersion is the highest version of a state that peers accept.
const maxVersion = 1 << 48

// Standing is the state of a job with its version, which grows with each change: the part of a job
// that peers exchange repeatedly.
type Standing struct {
	State   State  // never StateNone for a known job
	Version uint64 // the higher of two wins
	// Signature is by the key of the job's poster over the job's ID and both, see [Spec.Vouched];
	// empty for an unsigned job.
	Signature string
}

// Posted returns the initial standing of a job.
func Posted() Standing { return Standing{State: StateRunning, Version: 1} }

// Merge returns the winner of two standings of a job, in any order. Canceled stays canceled; else
// the higher version wins. Equal versions come from two sides of a network partition: then the one
// with fewer fetches and more work left wins: paused before running before done.
func (s Standing) Merge(t Standing) Standing {
	if cmp.Or(cmp.Compare(s.rank(), t.rank()), cmp.Compare(s.Version, t.Version), cmp.Compare(s.State.precedence(), t.State.precedence()),
		cmp.Compare(s.Signature, t.Signature)) < 0 {
		return t
	}
	return s
}

// rank puts canceled above all versions.
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

// Validate rejects a standing that no registry writes.
func (s Standing) Validate() error {
	if s.State == StateNone || s.State >= stateEnd || s.Version == 0 || s.Version > maxVersion || len(s.Signature) > wire.MaxSignature {
		return fmt.Errorf("invalid standing: state %d, version %d, signature of %d bytes", s.State, s.Version, len(s.Signature))
	}
	return nil
}
