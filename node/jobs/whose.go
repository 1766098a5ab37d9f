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

// Whose says whose jobs a peer takes. The zero Whose takes all.
type Whose struct {
	// Keys are the IDs of the job keys whose jobs are taken; nil: those of all.
	Keys map[peer.ID]bool
	// Signed takes no job that nobody signed, as Keys does.
	Signed bool
}

// all says whether there is no job that is not taken.
func (w Whose) all() bool { return w.Keys == nil && !w.Signed }

// Takes refuses a job that is not to be worked for, with job.ErrNotTaken.
func (w Whose) Takes(spec *job.Spec) error {
	switch {
	case w.Keys == nil && (spec.Signed() || !w.Signed):
		return nil
	case !spec.Signed():
		return fmt.Errorf("job %s: %w: nobody signed it", spec.ID, job.ErrNotTaken)
	case w.Keys[peer.ID(spec.Poster)]:
		return nil
	default:
		return fmt.Errorf("job %s: %w: it is of the key %s (--jobs)", spec.ID, job.ErrNotTaken, peer.ID(spec.Poster))
	}
}

// Worked is a book as workers see it: where not all jobs are taken, one of which nothing is known
// is not either, whoever grants its URLs.
type Worked struct{ *Book }

// Spec returns the spec of a job, asking its owner if it is not known.
func (w Worked) Spec(ctx context.Context, id job.ID) (*job.Spec, error) {
	spec, err := w.Book.Spec(ctx, id)
	if err != nil && !w.deps.Whose.all() && !errors.Is(err, job.ErrNotTaken) {
		err = fmt.Errorf("%w: %w", job.ErrNotTaken, err)
	}
	return spec, err
}

// ReadKeys reads a list of IDs of job keys, one a line, # before a comment.
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
			return nil, fmt.Errorf("line %d: %.80q is no ID of a job key, as apoidea job keys prints it", n, line)
		}
		keys[id] = true
	}
	return keys, lines.Err()
}
