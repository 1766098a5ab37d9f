// Package machine looks at the computer that a peer runs on: whether it runs on its battery,
// whether its link is paid by the byte, for how long nobody has used it, and what processor time
// the process has taken.
//
// Where the system does not tell, the answer is unknown, never a guess. Each question takes at most
// Timeout, and reads at most a few kilobytes. Questions may be asked by several goroutines.
package machine

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/apoidea/apoidea/node/volunteer"
)

const (
	// Timeout bounds one question, in which another program may be asked.
	Timeout = 2 * time.Second
	// maxAnswer bounds what is read of a file, or of what a program prints, in bytes.
	maxAnswer = 256 << 10
)

// Machine is the computer. The zero value is not usable: see This.
type Machine struct {
	// Root is where the file system begins; a test has one of its own.
	Root string
	// Run runs a program and returns what it prints.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Env reads a variable of the environment.
	Env func(name string) string
	// Now is the present time.
	Now func() time.Time
}

// Battery says whether the machine runs on its battery.
func (m *Machine) Battery(ctx context.Context) volunteer.Fact {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.battery(ctx)
}

// Metered says whether the link to the internet is paid by the byte.
func (m *Machine) Metered(ctx context.Context) volunteer.Fact {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.metered(ctx)
}

// Idle is for how long nobody has used keyboard or mouse; false if that is not known.
func (m *Machine) Idle(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.idle(ctx)
}

// command runs a program of this machine without input.
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

// bounded keeps the beginning of what is written to it.
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
