package doctor

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/apoidea/apoidea/node"
)

// TestExamineAfterRelays: a peer that relays may reach says that it listens on them too. That is no
// port: it is neither kept for the next start nor tried.
func TestExamineAfterRelays(t *testing.T) {
	cfg := node.DefaultConfig(t.TempDir(), node.ProfileLab)
	cfg.Contact, cfg.DiskReserve, cfg.Dashboard = "https://crawler.example/", 1<<20, "off"
	cfg.NATTraversal, cfg.Reachability = "on", "private" // no router is asked
	log := slog.New(slog.DiscardHandler)
	n, err := node.New(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := n.Run(ended); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, node.ErrStopped) {
		t.Fatal(err)
	}
	kept, err := node.ReadKept(cfg.DataDir)
	if err != nil || len(kept.Listen) == 0 {
		t.Fatalf("kept %v, %v", kept.Listen, err)
	}
	s := Setup{Config: cfg, Log: log}
	if _, err := Examine(t.Context(), s, func(f Finding) error {
		if f.Check == "ports" && f.Verdict != OK {
			t.Errorf("%s: %s; kept %v", f.Verdict, f.Found, kept.Listen)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
