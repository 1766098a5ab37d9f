package sim

import (
	"cmp"
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
)

func small() ChurnConfig {
	return ChurnConfig{Seed: 7, Peers: 40, For: 90 * time.Second, Session: 6 * time.Minute, Lookups: 50}
}

func runChurn(t *testing.T, cfg ChurnConfig) *ChurnReport {
	t.Helper()
	if raceEnabled {
		t.Skip("a simulation has one goroutine, and the detector makes it slow")
	}
	r, err := RunChurn(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRingUnderChurn(t *testing.T) {
	unraced(t)
	cfg := small()
	r := runChurn(t, cfg)
	t.Logf("%d born, %d died; lookups %+v; %.3f %% of the keys with their owner; upkeep %.0f B/s; settled %v after %d died",
		r.Born, r.Died, r.Churn, 100*r.Owned, r.UpkeepBytes, r.Settled, r.Killed)
	switch {
	case r.Born < 4 || r.Died < 4 || r.Killed < 3:
		t.Errorf("%d born, %d died, %d killed: no churn", r.Born, r.Died, r.Killed)
	case r.Quiet.Lookups == 0 || r.Quiet.Wrong+r.Quiet.Failed+r.Quiet.Waiting > 0 || r.QuietOwned < 1-1e-9:
		t.Errorf("30 s after the last change: %+v, %v of the keys with their owner", r.Quiet, r.QuietOwned)
	case r.Settled < 0 || r.Settled > 30*time.Second:
		t.Errorf("settled %v after a tenth died", r.Settled)
	case r.Churn.Wrong*50 > r.Churn.Lookups:
		t.Errorf("%d of %d lookups named a wrong owner", r.Churn.Wrong, r.Churn.Lookups)
	}
	cfg.Internet = nil
	if again := runChurn(t, cfg); !reflect.DeepEqual(r, again) {
		t.Errorf("the same seed gave\n%+v, then\n%+v", r, again)
	}
	cfg.Seed++
	if other := runChurn(t, cfg); reflect.DeepEqual(r.Samples, other.Samples) {
		t.Error("another seed gave the same")
	}
}

// TestWrongOwnerIsReported cuts a peer off: by the truth it still owns its keys, while the others
// take them over.
func TestWrongOwnerIsReported(t *testing.T) {
	cfg := small()
	cfg.For, cfg.SampleEvery, cfg.Lookups, cfg.Massacre = time.Minute, time.Minute, 1000, -1
	cfg.plant = func(r *dhtsim.Sim) {
		living := r.Living()
		arc := func(p *dhtsim.Node) float64 {
			i := slices.Index(living, p)
			return ring.Arc{Start: living[(i+len(living)-1)%len(living)].Peer.Key(), End: p.Peer.Key()}.Fraction()
		}
		victim := slices.MaxFunc(living, func(p, q *dhtsim.Node) int { return cmp.Compare(arc(p), arc(q)) })
		r.Partition(func(i, j int) bool { return (i == victim.Index) != (j == victim.Index) })
	}
	r := runChurn(t, cfg)
	t.Logf("%+v, at the end %+v", r.Quiet, r.Samples[len(r.Samples)-1].Coverage)
	if r.Quiet.Wrong == 0 {
		t.Error("no lookup named a wrong owner")
	}
	if last := r.Samples[len(r.Samples)-1]; last.Coverage.Wrong < 1e-3 {
		t.Errorf("%v of the keys served by a wrong peer", last.Coverage.Wrong)
	}
}

func TestChurnEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := small()
	cfg.Progress = func(done, _ time.Duration) {
		if done > 20*time.Second {
			cancel()
		}
	}
	if _, err := RunChurn(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// unraced leaves a test of state machines in virtual time, on one goroutine, to the run without the
// race detector: there is no race to find, and it would take ten times as long.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}
