package node

import "testing"

// TestFittingHostBytes: the default budget of a host follows the free disk, up to 2 GiB.
func TestFittingHostBytes(t *testing.T) {
	for free, want := range map[uint64]int64{0: 64 << 20, 20 << 30: 2 << 30, 1 << 50: 2 << 30} {
		if got := fittingHostBytes(free); got != want {
			t.Errorf("%d bytes free: %d, want %d", free, got, want)
		}
	}
	c := DefaultConfig(t.TempDir(), ProfileLab)
	if err := c.Validate(); err != nil || c.MaxBytesPerHost != FittingHostBytes {
		t.Errorf("default %d, %v", c.MaxBytesPerHost, err)
	}
	c.MaxBytesPerHost = -2
	if c.Validate() == nil {
		t.Error("-2 bytes are accepted")
	}
}
