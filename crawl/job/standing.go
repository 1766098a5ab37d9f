package job

import (
	"cmp"
	"fmt"

	"github.com/apoidea/apoidea/crawl/wire"
)

// maxVersion bounds the version of a state, of which other peers take no higher one.
const maxVersion = 1 << 48

// Standing is the state of a job with its version, which grows with each change: all that peers
// which work for a job need to hear again and again.
type Standing struct {
	State   State  // never StateNone of a job that is known
	Version uint64 // of two, the higher holds
	// Signature is by the key of the job's poster over the job's ID and both, see [Spec.Vouched];
	// empty of a job that nobody signed.
	Signature string
}

// Posted is the standing of a job that was posted and not changed since.
func Posted() Standing { return Standing{State: StateRunning, Version: 1} }

// Merge is the one of two standings of a job that holds, in any order. Canceled stays canceled;
// else the higher version wins. Two of one version come from two sides of a broken ring: then that
// wins which does less to the web and keeps more of the job open: paused before running before
// done.
func (s Standing) Merge(t Standing) Standing {
	if cmp.Or(cmp.Compare(s.rank(), t.rank()), cmp.Compare(s.Version, t.Version), cmp.Compare(s.State.precedence(), t.State.precedence()),
		cmp.Compare(s.Signature, t.Signature)) < 0 {
		return t
	}
	return s
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
	if s.State == StateNone || s.State >= stateEnd || s.Version == 0 || s.Version > maxVersion || len(s.Signature) > wire.MaxSignature {
		return fmt.Errorf("no standing: state %d, version %d, signature of %d bytes", s.State, s.Version, len(s.Signature))
	}
	return nil
}
