package coordinates

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is the duration of a cycle (3.4).
type Mode uint8

// The modes.
const (
	ModeCycle      Mode = iota // batch after batch
	ModePersistent             // one batch, estimated permanently and assigned repeatedly
	ModeSingle                 // one batch, then nothing
	ModeNone                   // nothing is placed
)

// modeNames are the names of the modes, in their order.
var modeNames = []string{"cycle", "persistent", "single", "none"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Modes returns the names of the modes.
func Modes() []string { return slices.Clone(modeNames) }

// ParseMode returns the mode of that name. The error lists the valid names.
func ParseMode(name string) (Mode, error) {
	if i := slices.Index(modeNames, name); i >= 0 {
		return Mode(i), nil // one of four
	}
	return 0, fmt.Errorf("mode %q: must be one of %s", name, strings.Join(modeNames, ", "))
}
