//go:build linux

package machine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// TestLinuxBattery reads a tree of files as the system has it.
func TestLinuxBattery(t *testing.T) {
	m := &Machine{Root: t.TempDir()}
	if got := m.Battery(t.Context()); got != volunteer.Unknown {
		t.Errorf("without sysfs: %v, want unknown", got)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(m.Root, "sys/class/power_supply", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("AC/type", "Mains")
	write("BAT0/type", "Battery")
	for _, c := range []struct {
		online, status string
		want           volunteer.Fact
	}{{"1", "Charging", volunteer.No}, {"0", "Discharging", volunteer.Yes}, {"1", "Full", volunteer.No}} {
		write("AC/online", c.online)
		write("BAT0/status", c.status)
		if got := m.Battery(t.Context()); got != c.want {
			t.Errorf("plug %s, battery %s: %v, want %v", c.online, c.status, got, c.want)
		}
	}
}

// TestLinuxIdle: the X server is asked where there is one, the login manager where not.
func TestLinuxIdle(t *testing.T) {
	now := time.UnixMicro(1_700_000_600_000_000)
	env := map[string]string{}
	var asked []string
	m := &Machine{
		Env: func(name string) string { return env[name] }, Now: func() time.Time { return now },
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			asked = append(asked, name)
			if name == "xprintidle" {
				return []byte("5000\n"), nil
			}
			if !slices.Contains(args, "IdleHint") {
				t.Errorf("asked %s %s", name, strings.Join(args, " "))
			}
			return []byte("b true\nt 1700000000000000\n"), nil
		},
	}
	if idle, known := m.Idle(t.Context()); idle != 10*time.Minute || !known {
		t.Errorf("by the login manager %v %v", idle, known)
	}
	env["DISPLAY"] = ":0"
	if idle, known := m.Idle(t.Context()); idle != 5*time.Second || !known {
		t.Errorf("by the X server %v %v", idle, known)
	}
	if !slices.Equal(asked, []string{"busctl", "xprintidle"}) {
		t.Errorf("asked %v", asked)
	}
}

func TestProcessTimeGrows(t *testing.T) {
	before := ProcessTime()
	for sum := 0; ProcessTime() == before; sum++ { // works until it has used some
		if sum < 0 {
			t.Fatal("overflow")
		}
	}
}
