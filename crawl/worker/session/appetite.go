package session

import "time"

// appetite is how many URLs of a host are asked for.
type appetite struct {
	window  int           // at most
	horizon time.Duration // what is fetched in it is asked for
	of      Hunger
}

// Hunger is what of a Driver the size of windows depends on.
type Hunger interface {
	// Full says whether the windows of all hosts take as many bytes as they may.
	Full() bool
	// Pace is the time between two requests to a host, zero if it has none.
	Pace(l *Lease) time.Duration
}

// target is the size of the window: what is fetched within the horizon, at least a few.
func (a *appetite) target(l *Lease) int {
	const least = 8
	pace := a.of.Pace(l)
	if pace <= 0 {
		return a.window
	}
	return int(min(max(a.horizon/pace, least), time.Duration(a.window)))
}

// low is how few URLs a host has left when it asks for more: half of its window, none while those
// of all are full.
func (a *appetite) low(l *Lease) int {
	if a.of.Full() {
		return 0
	}
	return a.target(l) / 2
}

// ask is how many URLs a host asks for that has left so many.
func (a *appetite) ask(l *Lease, left int) int {
	if a.of.Full() {
		return 1
	}
	return a.target(l) - left
}
