// Package machine reports the state of the computer: battery power, metered link, time without user
// input, and resource usage of the process.
//
// A fact that the system does not report is unknown, never a guess. Each query takes at most
// Timeout and reads limited data. Queries are safe for concurrent use.
package machine

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

const (
	// Timeout limits one query, which may run another program.
	Timeout = 2 * time.Second
	// maxAnswer limits the bytes read from a file or from the output of a program.
	maxAnswer = 256 << 10
)

// Machine is the computer. The zero value is not usable: see This.
type Machine struct {
	// Root is the root of the file system; tests use another.
	Root string
	// Run runs a program and returns its output.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Env returns an environment variable.
	Env func(name string) string
	// Now returns the current time.
	Now func() time.Time
}

// Battery reports whether the machine is on battery power.
func (m *Machine) Battery(ctx context.Context) volunteer.Fact {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.battery(ctx)
}

// Metered reports whether the internet connection is metered.
func (m *Machine) Metered(ctx context.Context) volunteer.Fact {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.metered(ctx)
}

// Idle returns the time without keyboard or mouse input; false if unknown.
func (m *Machine) Idle(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.idle(ctx)
}

// command runs a program without input.
func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out := bounded{left: maxAnswer}
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out.text, nil
}

// bounded is a writer that stores only the first bytes.
type bounded struct {
	text []byte
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.text = append(b.text, p[:n]...)
	b.left -= n
	return len(p), nil
}
