package jobs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
)

// Whose selects the jobs that a peer accepts, by poster. The zero Whose accepts all.
type Whose struct {
	// Keys holds the IDs of the accepted job keys; nil: all.
	Keys map[peer.ID]bool
	// Signed rejects unsigned jobs, as Keys does.
	Signed bool
}

// all reports whether every job is accepted.
func (w Whose) all() bool { return w.Keys == nil && !w.Signed }

// Takes returns job.ErrNotTaken for a job that is not accepted.
func (w Whose) Takes(spec *job.Spec) error {
	switch {
	case w.Keys == nil && (spec.Signed() || !w.Signed):
		return nil
	case !spec.Signed():
		return fmt.Errorf("job %s: %w: not signed", spec.ID, job.ErrNotTaken)
	case w.Keys[peer.ID(spec.Poster)]:
		return nil
	default:
		return fmt.Errorf("job %s: %w: key %s is not in --jobs", spec.ID, job.ErrNotTaken, peer.ID(spec.Poster))
	}
}

// Worked is the Book for workers: unless all jobs are accepted, an unknown job is rejected,
// whichever owner grants its URLs.
type Worked struct{ *Registry }

// Spec returns the spec of a job, which it requests from the owner if unknown.
func (w Worked) Spec(ctx context.Context, id job.ID) (*job.Spec, error) {
	spec, err := w.Registry.Spec(ctx, id)
	if err != nil && !w.deps.Whose.all() && !errors.Is(err, job.ErrNotTaken) {
		err = fmt.Errorf("%w: %w", job.ErrNotTaken, err)
	}
	return spec, err
}

// ReadKeys parses a list of job key IDs, one per line, with comments after #.
func ReadKeys(text []byte) (map[peer.ID]bool, error) {
	keys := make(map[peer.ID]bool)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		id, err := peer.Decode(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %.80q is not the ID of a job key (apoidea job keys prints it)", n, line)
		}
		keys[id] = true
	}
	return keys, lines.Err()
}
