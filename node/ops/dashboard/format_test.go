package dashboard

import "testing"

func TestAmounts(t *testing.T) {
	for _, row := range []struct {
		n          float64
		size, rate string
	}{
		{999, "999 B", "999 B/s"},
		{1024, "1 KiB", "1.02 kB/s"},
		{250_000, "244 KiB", "250 kB/s"},
		{16 << 20, "16 MiB", "16.8 MB/s"},
	} {
		if size, rate := bytesText(row.n), rateText(row.n); size != row.size || rate != row.rate {
			t.Errorf("%v: %s and %s, want %s and %s", row.n, size, rate, row.size, row.rate)
		}
	}
}
