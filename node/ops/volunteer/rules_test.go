package volunteer

import (
	"strings"
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	for _, c := range []struct {
		key, value string
		got        func(*Rules) any
		want       any
		text       string // as it is written back; empty: as it was
	}{
		{KeyBandwidth, "2Mbit", func(r *Rules) any { return r.Bandwidth }, int64(250_000), ""},
		{KeyBandwidth, "2Mbit/s", func(r *Rules) any { return r.Bandwidth }, int64(250_000), "2Mbit"},
		{KeyBandwidth, "1.5Mbit", func(r *Rules) any { return r.Bandwidth }, int64(187_500), "1500kbit"},
		{KeyBandwidth, "140kB", func(r *Rules) any { return r.Bandwidth }, int64(140_000), ""},
		{KeyBandwidth, "none", func(r *Rules) any { return r.Bandwidth }, int64(0), ""},
		{KeyBandwidthUp, "50001B", func(r *Rules) any { return r.BandwidthUp }, int64(50001), ""},
		{KeyFetchers, "7", func(r *Rules) any { return r.Fetchers }, 7, ""},
		{KeyCPUShare, "25%", func(r *Rules) any { return r.CPUShare }, 0.25, ""},
		{KeyCPUShare, "150 %", func(r *Rules) any { return r.CPUShare }, 1.5, "150%"},
		{KeyCPUShare, "none", func(r *Rules) any { return r.CPUShare }, 0.0, ""},
		{KeyMemory, "128MiB", func(r *Rules) any { return r.Memory }, int64(128 << 20), ""},
		{KeyDiskQuota, "20GB", func(r *Rules) any { return r.DiskQuota }, int64(20e9), ""},
		{KeyDiskReserve, "1GiB", func(r *Rules) any { return r.DiskReserve }, int64(1 << 30), ""},
		{KeyQuotaDay, "500MB", func(r *Rules) any { return r.QuotaDay }, int64(500e6), ""},
		{KeyQuotaMonth, "1TB", func(r *Rules) any { return r.QuotaMonth }, int64(1e12), ""},
		{KeySchedule, "mon-fri 22:00-07:00; sat,sun", func(r *Rules) any { return r.Schedule.String() }, "mon-fri 22:00-07:00; sat,sun", ""},
		{KeyOutside, "256kbit", func(r *Rules) any { return r.Outside }, int64(32_000), "32kB"},
		{KeyOutside, "pause", func(r *Rules) any { return r.Outside }, int64(0), ""},
		{KeyOnlyWhenIdle, "10m", func(r *Rules) any { return r.OnlyWhenIdle }, 10 * time.Minute, "10m0s"},
		{KeyPauseOnBattery, "true", func(r *Rules) any { return r.PauseOnBattery }, true, ""},
		{KeyPauseOnMetered, "false", func(r *Rules) any { return r.PauseOnMetered }, false, ""},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			k, ok := Find(c.key)
			if !ok {
				t.Fatal("no such key")
			}
			var r Rules
			if err := k.Set(&r, c.value); err != nil {
				t.Fatal(err)
			}
			if got := c.got(&r); got != c.want {
				t.Errorf("is %v, want %v", got, c.want)
			}
			want := c.text
			if want == "" {
				want = c.value
			}
			if got := k.Get(&r); got != want {
				t.Errorf("is written %q, want %q", got, want)
			}
		})
	}
}

func TestSetErrors(t *testing.T) {
	for _, c := range []struct{ key, value string }{
		{KeyBandwidth, "2Mb"},
		{KeyBandwidth, "fast"},
		{KeyBandwidth, "-1kB"},
		{KeyBandwidth, "1B"},
		{KeyBandwidth, "1e30GB"},
		{KeyBandwidth, "NaNkB"},
		{KeyFetchers, "0"},
		{KeyFetchers, "5000"},
		{KeyFetchers, "many"},
		{KeyCPUShare, "25"},
		{KeyCPUShare, "0.1%"},
		{KeyCPUShare, "NaN%"},
		{KeyMemory, "1MiB"},
		{KeyDiskQuota, "much"},
		{KeyQuotaDay, "5bit"},
		{KeySchedule, "never"},
		{KeyOutside, "0"},
		{KeyOutside, "stop"},
		{KeyOnlyWhenIdle, "-5m"},
		{KeyOnlyWhenIdle, "48h"},
		{KeyPauseOnBattery, "maybe"},
	} {
		k, _ := Find(c.key)
		before := Rules{Fetchers: 3, Bandwidth: 7}
		r := before
		err := k.Set(&r, c.value)
		if err == nil {
			t.Errorf("%s=%s was taken", c.key, c.value)
			continue
		}
		if !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s=%s: the error names not both: %v", c.key, c.value, err)
		}
		if r.Fetchers != before.Fetchers || r.Bandwidth != before.Bandwidth {
			t.Errorf("%s=%s: changed the rules although it was wrong", c.key, c.value)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "none": 0, "17": 17, "17B": 17, "2kB": 2000, "2KB": 2000, "2KiB": 2048, "3MB": 3e6, "3MiB": 3 << 20, "1.5GB": 15e8, "4 GiB": 4 << 30, "1TB": 1e12, "1TiB": 1 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "MB", "-1", "1XB", "18446744073709551616", "99999999999TiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// FuzzSet: what is taken is written so that it is read as the same.
func FuzzSet(f *testing.F) {
	for i, s := range []string{"2Mbit", "250kB", "7", "25%", "128MiB", "none", "10m", "true", "pause", "mon 10:00-11:00", "1e3KiB", "0.5GB"} {
		f.Add(uint8(i), s)
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		k := Keys[int(which)%len(Keys)]
		var r, again Rules
		if k.Set(&r, value) != nil {
			return
		}
		text := k.Get(&r)
		if err := k.Set(&again, text); err != nil {
			t.Fatalf("%s %q is written %q, which is not read: %v", k.Name, value, text, err)
		}
		if k.Get(&again) != text {
			t.Fatalf("%s %q is written %q and then %q", k.Name, value, text, k.Get(&again))
		}
	})
}

// FuzzAmounts: sizes and rates that are read are within their bounds, and written they are read
// again as they are.
func FuzzAmounts(f *testing.F) {
	for _, text := range []string{"none", "0", "500MB", "2GiB", "1.5 kB", "2Mbit/s", "250kB", "-1B", "1e30TB", "0x10", "inf", "nan", "1_000", "1024PiB", "0.3bit", "/s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseSize(text); err == nil {
			if again, err := ParseSize(SizeText(n)); n < 0 || n > maxAmount || err != nil || again != n {
				t.Errorf("size %q: %d, written %s, read %d, %v", text, n, SizeText(n), again, err)
			}
		}
		if n, err := ParseRate(text); err == nil {
			if again, err := ParseRate(RateText(n)); n < 0 || n > maxAmount || err != nil || again != n {
				t.Errorf("rate %q: %d, written %s, read %d, %v", text, n, RateText(n), again, err)
			}
		}
	})
}
