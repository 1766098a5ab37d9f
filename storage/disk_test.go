package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	broken := errors.New("disk is gone")
	for _, row := range []struct {
		name    string
		reserve uint64
		free    uint64
		err     error
		want    error
	}{
		{"room", 1 << 20, 2 << 20, nil, nil},
		{"just the reserve", 1 << 20, 1 << 20, nil, nil},
		{"less", 1 << 20, 1<<20 - 1, nil, ErrDiskReserve},
		{"less than the default", 0, DefaultReserve - 1, nil, ErrDiskReserve},
		{"unknown", 1, 0, broken, broken},
	} {
		g := NewGuard("data", row.reserve)
		g.free = func(string) (uint64, error) { return row.free, row.err }
		if err := g.Check(); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", row.name, err, row.want)
		}
	}
}

func TestFreeAsksTheDisk(t *testing.T) {
	if free, err := Free(t.TempDir()); free == 0 || err != nil {
		t.Errorf("%d bytes free, %v", free, err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Free(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want that %s does not exist", err, missing)
	}
}
