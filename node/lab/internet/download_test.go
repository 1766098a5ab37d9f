package internet

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestTransferWire(t *testing.T) {
	const rtt = 100 * time.Millisecond
	for name, c := range map[string]struct {
		t    Transfer
		want time.Duration
	}{
		"nothing":                       {Transfer{RTT: rtt}, 2 * rtt},
		"one window":                    {Transfer{RTT: rtt, Bytes: 14_600}, 2 * rtt},
		"two windows":                   {Transfer{RTT: rtt, Bytes: 14_601}, 3 * rtt},
		"two windows whole":             {Transfer{RTT: rtt, Bytes: 43_800}, 3 * rtt},
		"four windows":                  {Transfer{RTT: rtt, Bytes: 102_201}, 5 * rtt},
		"the window stops growing":      {Transfer{RTT: rtt, Bytes: 14_600*127 + 3*maxWindow}, 2*rtt + 6*rtt + 3*rtt},
		"a line that is never full":     {Transfer{RTT: rtt, Bytes: 43_800, Rate: 292_000}, 3*rtt + rtt},
		"a line slower than the window": {Transfer{RTT: rtt, Bytes: 43_800, Rate: 14_600}, 2*rtt + time.Second + 2*time.Second},
	} {
		if got := c.t.Wire(); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (Transfer{RTT: -1, Bytes: 5}).Time(rnd()); got >= 0 {
		t.Errorf("a download over a way that nobody measured takes %v", got)
	}
}

func TestTransferTime(t *testing.T) {
	for name, c := range map[string]struct {
		t    Transfer
		want time.Duration // median
	}{
		"as Download":   {Transfer{RTT: 20 * time.Millisecond, Bytes: 1000}, 90 * time.Millisecond},
		"a slow server": {Transfer{RTT: 20 * time.Millisecond, Bytes: 1000, Server: time.Second}, 1040 * time.Millisecond},
		"a slow peer":   {Transfer{RTT: 20 * time.Millisecond, Bytes: 1000, Slow: 5}, 450 * time.Millisecond},
	} {
		r := rnd()
		took := make([]time.Duration, 4001)
		for i := range took {
			took[i] = c.t.Time(r)
		}
		slices.Sort(took)
		if m := took[2000]; math.Abs(m.Seconds()/c.want.Seconds()-1) > 0.05 {
			t.Errorf("%s: median %v, want about %v", name, m, c.want)
		}
		if took[0] < 2*c.t.RTT {
			t.Errorf("%s: %v is less than two round trips", name, took[0])
		}
	}
}

func TestPageSize(t *testing.T) {
	r := rnd()
	sizes := make([]int, 20_001)
	sum := 0
	for i := range sizes {
		sizes[i] = PageSize(r)
		sum += sizes[i]
	}
	slices.Sort(sizes)
	if mean := sum / len(sizes); mean < 36_000 || mean > 40_000 {
		t.Errorf("mean %d bytes", mean)
	}
	if m := sizes[10_000]; m < 17_500 || m > 19_500 {
		t.Errorf("median %d bytes", m)
	}
	if sizes[0] < minPage || sizes[20_000] > maxPage {
		t.Errorf("from %d to %d bytes", sizes[0], sizes[20_000])
	}
}
