package machine

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// MeteredEvery is the interval of Metered queries.
const MeteredEvery = 10 * time.Second

// maxSupplies limits the power supplies read.
const maxSupplies = 32

// battery reads the power supplies of sysfs.
func (m *Machine) battery(context.Context) volunteer.Fact {
	dir := filepath.Join(m.Root, "sys/class/power_supply")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return volunteer.Unknown
	}
	var all []supply
	for _, e := range entries[:min(len(entries), maxSupplies)] {
		read := func(name string) string { return word(filepath.Join(dir, e.Name(), name)) }
		all = append(all, supply{kind: read("type"), online: read("online"), status: read("status"), scope: read("scope")})
	}
	return powered(all)
}

// word returns the text of a small file, empty if it cannot be read.
func word(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxAnswer))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// metered queries NetworkManager.
func (m *Machine) metered(ctx context.Context) volunteer.Fact {
	const nm = "org.freedesktop.NetworkManager"
	out, err := m.Run(ctx, "busctl", "--system", "get-property", nm, "/org/freedesktop/NetworkManager", nm, "Metered")
	if err != nil {
		return volunteer.Unknown
	}
	return networkManager(out)
}

// idle queries the X server if the peer was started from an X desktop, else the login manager.
func (m *Machine) idle(ctx context.Context) (time.Duration, bool) {
	if m.Env("DISPLAY") != "" && m.Env("WAYLAND_DISPLAY") == "" {
		if out, err := m.Run(ctx, "xprintidle"); err == nil {
			return milliseconds(out)
		}
	}
	const login = "org.freedesktop.login1"
	out, err := m.Run(ctx, "busctl", "--system", "get-property", login, "/org/freedesktop/login1", login+".Manager", "IdleHint", "IdleSinceHint")
	if err != nil {
		return 0, false
	}
	return logind(out, m.Now())
}
