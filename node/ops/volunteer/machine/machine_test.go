package machine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

func TestPowered(t *testing.T) {
	plugged, unplugged := supply{kind: "Mains", online: "1"}, supply{kind: "Mains", online: "0"}
	draining, charging := supply{kind: "Battery", status: "Discharging"}, supply{kind: "Battery", status: "Charging"}
	mouse := supply{kind: "Battery", status: "Discharging", scope: "Device"}
	for name, c := range map[string]struct {
		all  []supply
		want volunteer.Fact
	}{
		"a desktop":                         {nil, volunteer.No},
		"a laptop that is plugged in":       {[]supply{plugged, charging}, volunteer.No},
		"a laptop on battery":               {[]supply{unplugged, draining}, volunteer.Yes},
		"plugged in, and draining still":    {[]supply{plugged, draining}, volunteer.No},
		"a tablet that shows no plug":       {[]supply{draining}, volunteer.Yes},
		"a tablet that charges":             {[]supply{charging}, volunteer.No},
		"a desktop with a mouse":            {[]supply{mouse}, volunteer.No},
		"a laptop on battery with a mouse":  {[]supply{unplugged, draining, mouse}, volunteer.Yes},
		"two batteries, one of which holds": {[]supply{unplugged, {kind: "Battery", status: "Full"}, draining}, volunteer.Yes},
		"USB-C, programmable":               {[]supply{{kind: "USB", online: "2"}, draining}, volunteer.No},
	} {
		if got := powered(c.all); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		read func([]byte) volunteer.Fact
		text string
		want volunteer.Fact
	}{
		"macOS on battery":       {pmset, "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t80%; discharging", volunteer.Yes},
		"macOS plugged in":       {pmset, "Now drawing from 'AC Power'\n -InternalBattery-0 (id=1)\t100%; charged", volunteer.No},
		"macOS, other words":     {pmset, "no battery", volunteer.Unknown},
		"NetworkManager yes":     {networkManager, "u 1\n", volunteer.Yes},
		"NetworkManager no":      {networkManager, "u 2\n", volunteer.No},
		"NetworkManager guesses": {networkManager, "u 3\n", volunteer.Yes},
		"NetworkManager: no":     {networkManager, "u 4\n", volunteer.No},
		"NetworkManager unsure":  {networkManager, "u 0\n", volunteer.Unknown},
		"NetworkManager, none":   {networkManager, "", volunteer.Unknown},
		"Windows fixed":          {costType, "Fixed\r\n", volunteer.Yes},
		"Windows variable":       {costType, "Variable", volunteer.Yes},
		"Windows free":           {costType, "Unrestricted\r\n", volunteer.No},
		"Windows unsure":         {costType, "Unknown", volunteer.Unknown},
		"FreeBSD on battery":     {acline, "0\n", volunteer.Yes},
		"FreeBSD plugged in":     {acline, "1\n", volunteer.No},
		"FreeBSD, none":          {acline, "-1\n", volunteer.Unknown},
	} {
		if got := c.read([]byte(c.text)); got != c.want {
			t.Errorf("%s: %q is %v, want %v", name, c.text, got, c.want)
		}
	}
}

func TestIdleTimes(t *testing.T) {
	now := time.UnixMicro(1_700_000_600_000_000)
	byLogin := func(out []byte) (time.Duration, bool) { return logind(out, now) }
	for name, c := range map[string]struct {
		read  func([]byte) (time.Duration, bool)
		text  string
		idle  time.Duration
		known bool
	}{
		"macOS":                  {ioreg, `    |   "HIDIdleTime" = 90000000000` + "\n", 90 * time.Second, true},
		"macOS without it":       {ioreg, "nothing", 0, false},
		"macOS, too long":        {ioreg, `"HIDIdleTime" = 999999999999999999999`, 0, false},
		"login manager, in use":  {byLogin, "b false\nt 0\n", 0, true},
		"login manager, idle":    {byLogin, "b true\nt 1700000000000000\n", 10 * time.Minute, true},
		"login manager, ahead":   {byLogin, "b true\nt 1700000700000000\n", 0, true},
		"login manager, no time": {byLogin, "b true\nt 0\n", 0, false},
		"login manager, none":    {byLogin, "", 0, false},
		"X":                      {milliseconds, "61000\n", 61 * time.Second, true},
		"X, none":                {milliseconds, "no display", 0, false},
		"X, negative":            {milliseconds, "-1", 0, false},
	} {
		idle, known := c.read([]byte(c.text))
		if idle != c.idle || known != c.known {
			t.Errorf("%s: %v %v, want %v %v", name, idle, known, c.idle, c.known)
		}
	}
}

// FuzzAnswers: what programs print makes nobody idle for a negative time, and nothing fall over.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"b true\nt 1700000000000000", "u 1", `"HIDIdleTime" = 1`, "Now drawing from 'AC Power'", "61000", "", "b true\nt -1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		pmset(out)
		networkManager(out)
		costType(out)
		acline(out)
		for _, read := range []func([]byte) (time.Duration, bool){ioreg, milliseconds, func(b []byte) (time.Duration, bool) { return logind(b, time.Unix(0, 0)) }} {
			if idle, _ := read(out); idle < 0 {
				t.Fatalf("%q: idle for %v", out, idle)
			}
		}
	})
}

// TestNobodyAnswers: where programs are missing or fail, nothing is known.
func TestNobodyAnswers(t *testing.T) {
	m := &Machine{
		Root: t.TempDir(), Env: func(string) string { return ":0" }, Now: time.Now,
		Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("not found") },
	}
	if got := m.Metered(t.Context()); got != volunteer.Unknown {
		t.Errorf("metered: %v, want unknown", got)
	}
	if runtime.GOOS == "windows" {
		return // which is asked without a program
	}
	if _, known := m.Idle(t.Context()); known {
		t.Error("idle is known")
	}
	if got := m.Battery(t.Context()); got != volunteer.Unknown {
		t.Errorf("battery: %v, want unknown", got)
	}
}

// TestCommandIsBounded: a program that prints without end, or never ends, costs no more than its
// bound.
func TestCommandIsBounded(t *testing.T) {
	b := bounded{left: 10}
	for range 5 {
		if n, err := b.Write([]byte("123456")); n != 6 || err != nil {
			t.Fatal(n, err)
		}
	}
	if string(b.text) != "1234561234" {
		t.Errorf("kept %q", b.text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := command(ctx, "sleep", "60"); err == nil || !strings.Contains(err.Error(), "sleep") {
		t.Errorf("a program beyond its time: %v", err)
	}
}
