package machine

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// supply is a power supply in Linux's sysfs.
type supply struct{ kind, online, status, scope string }

// powered evaluates the power supplies of a machine, without those of a mouse or a headset (scope
// Device).
func powered(all []supply) volunteer.Fact {
	plugged, battery, draining := false, false, false
	for _, s := range all {
		switch {
		case s.scope == "Device":
		case s.kind == "Battery":
			battery = true
			draining = draining || s.status == "Discharging"
		case s.online == "1" || s.online == "2":
			plugged = true
		}
	}
	switch {
	case plugged || !battery || !draining:
		return volunteer.No
	default:
		return volunteer.Yes
	}
}

// pmset parses the first line of macOS' pmset -g batt: Now drawing from 'AC Power'.
func pmset(out []byte) volunteer.Fact {
	line, _, _ := bytes.Cut(out, []byte("\n"))
	switch {
	case bytes.Contains(line, []byte("'Battery Power'")):
		return volunteer.Yes
	case bytes.Contains(line, []byte("'AC Power'")), bytes.Contains(line, []byte("'UPS Power'")):
		return volunteer.No
	default:
		return volunteer.Unknown
	}
}

var hidIdle = regexp.MustCompile(`"HIDIdleTime" = (\d{1,18})\b`)

// ioreg parses the time since the last input, in nanoseconds, in the output of macOS' ioreg -c
// IOHIDSystem.
func ioreg(out []byte) (time.Duration, bool) {
	found := hidIdle.FindSubmatch(out)
	if found == nil {
		return 0, false
	}
	ns, err := strconv.ParseInt(string(found[1]), 10, 64)
	return time.Duration(ns), err == nil
}

// networkManager parses its property Metered in busctl format: u 4. NetworkManager guesses 3 (yes)
// and 4 (no) by the type of the link.
func networkManager(out []byte) volunteer.Fact {
	switch strings.TrimSpace(string(out)) {
	case "u 1", "u 3":
		return volunteer.Yes
	case "u 2", "u 4":
		return volunteer.No
	default:
		return volunteer.Unknown
	}
}

// logind parses the properties IdleHint and IdleSinceHint (microseconds since 1970) in busctl
// format, one per line.
func logind(out []byte, now time.Time) (time.Duration, bool) {
	hint, since, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch strings.TrimSpace(hint) {
	case "b false":
		return 0, true
	case "b true":
	default:
		return 0, false
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(since), "t ")
	us, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || us <= 0 {
		return 0, false
	}
	return max(now.Sub(time.UnixMicro(us)), 0), true
}

// milliseconds parses the output of xprintidle.
func milliseconds(out []byte) (time.Duration, bool) {
	ms, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil || ms < 0 || ms > int64(1e12) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// costType parses Windows' NetworkCostType: Fixed and Variable links are charged by volume or have
// an allowance.
func costType(out []byte) volunteer.Fact {
	switch strings.TrimSpace(string(out)) {
	case "Fixed", "Variable":
		return volunteer.Yes
	case "Unrestricted":
		return volunteer.No
	default:
		return volunteer.Unknown
	}
}

// acline parses FreeBSD's hw.acpi.acline: 1 if plugged in.
func acline(out []byte) volunteer.Fact {
	switch strings.TrimSpace(string(out)) {
	case "0":
		return volunteer.Yes
	case "1":
		return volunteer.No
	default:
		return volunteer.Unknown
	}
}
