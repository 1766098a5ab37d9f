package job

import (
	"math"
	"testing"
)

func TestRefreshIsParsedAndPrinted(t *testing.T) {
	for text, want := range map[string]struct{ perDay, within float64 }{
		"off":          {0, math.Inf(1)},
		"20000/day":    {20000, math.Inf(1)},
		"7d":           {0, 7},
		"12h0m0s":      {0, 0.5},
		"1h30m0s":      {0, 1.5 / 24},
		"3650d":        {0, 3650},
		"10s":          {0, 10. / 86400},
		"1/day":        {1, math.Inf(1)},
		"99999999/day": {99999999, math.Inf(1)},
	} {
		r, err := ParseRefresh(text)
		if err != nil || r.Validate() != nil || r.PerDay() != want.perDay || math.Abs(r.Within()-want.within) > 1e-9 && !math.IsInf(want.within, 1) || r.String() != text {
			t.Errorf("%s: %v, %v, %v a day, within %v days, printed %s", text, uint64(r), err, r.PerDay(), r.Within(), r)
		}
	}
	for _, text := range []string{"", "7", "0/day", "-1/day", "9s", "3651d", "day", "1e3/day", "1099511627777/day", "99999999999999999999d", "0d", "-7d", "NaNd"} {
		if r, err := ParseRefresh(text); err == nil {
			t.Errorf("%q is accepted as %v", text, r)
		}
	}
	for _, r := range []Refresh{3, 2*maxRefreshVisits + 2, math.MaxUint64, math.MaxUint64 - 1} {
		if r.Validate() == nil {
			t.Errorf("%d is accepted", uint64(r))
		}
	}
}
