package trial_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

func TestOptionsOrTheUsual(t *testing.T) {
	given, none := trial.Options{Peers: 3, Hours: 0.5, Quick: true}, trial.Options{}
	if given.Count(7) != 3 || none.Count(7) != 7 {
		t.Error("counts")
	}
	if given.Length(time.Hour) != 30*time.Minute || none.Length(time.Hour) != time.Hour {
		t.Error("lengths")
	}
	if trial.Either(&given, "usual", "quick") != "quick" || trial.Either(&none, 1, 2) != 1 {
		t.Error("quick ones")
	}
	if given.Rand(1).Uint64() == given.Rand(2).Uint64() || given.Rand(1).Uint64() != none.Rand(1).Uint64() {
		t.Error("streams")
	}
}

func TestTogether(t *testing.T) {
	var did [10]bool
	last := 0.0
	err := trial.Together(t.Context(), 3, len(did), 10, func(_ string, done float64) { last = done }, func(_ context.Context, i int) (string, error) {
		did[i] = true
		return "", nil
	})
	if err != nil || last != 0.5 || did != [10]bool{true, true, true, true, true, true, true, true, true, true} {
		t.Errorf("%v done, half of the whole is %v: %v", did, last, err)
	}
	broken := errors.New("broken")
	err = trial.Together(t.Context(), 1, 3, 0, func(string, float64) { t.Error("a piece is done") }, func(ctx context.Context, i int) (string, error) {
		if i == 0 {
			return "", broken
		}
		return "", ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
