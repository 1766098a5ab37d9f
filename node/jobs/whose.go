package jobs

import (
	"bufio"
	"bytes"
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

// Takes refuses a job that is not to be worked for.
func (w Whose) Takes(spec *job.Spec) error {
	switch {
	case w.Keys == nil && (spec.Signed() || !w.Signed):
		return nil
	case !spec.Signed():
		return fmt.Errorf("job %s: this peer takes no job that is not signed", spec.ID)
	case w.Keys[peer.ID(spec.Poster)]:
		return nil
	default:
		return fmt.Errorf("job %s: this peer takes no jobs of the key %s (--jobs)", spec.ID, peer.ID(spec.Poster))
	}
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
