package hosts

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestTakenReports: only outcomes that were taken are counted, whatever jobs the others name.
func TestTakenReports(t *testing.T) {
	known, made := job.ID{1}, job.ID{2}
	work := func(host string, id job.ID) *wire.HostWork {
		return &wire.HostWork{Host: host, Fetched: []*wire.Fetched{{Job: id[:]}}}
	}
	counts := make(taken)
	counts.reports(&wire.Session{Hosts: []*wire.HostWork{work("a.example", known), work("b.example", made), work("c.example", made), work("d.example", known)}},
		&wire.SessionReply{Refused: []string{"b.example"}, Moved: []string{"c.example"}})
	if len(counts) != 1 || counts[known] != 2 {
		t.Errorf("counted %v", counts)
	}
}
