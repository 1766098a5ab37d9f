package session

import "time"

// appetite computes how many URLs of a host are requested.
type appetite struct {
	window  int           // at most
	horizon time.Duration // URLs fetched within it are requested
	of      Hunger
}

// Hunger is the part of a Driver that determines the size of windows.
type Hunger interface {
	// Full reports whether the windows of all hosts have reached their limit in bytes.
	Full() bool
	// Pace returns the time between two requests to a host, zero if it has none.
	Pace(l *Lease) time.Duration
}

// target returns the size of the window: URLs fetched within the horizon, at least a few.
func (a *appetite) target(l *Lease) int {
	const least = 8
	pace := a.of.Pace(l)
	if pace <= 0 {
		return a.window
	}
	return int(min(max(a.horizon/pace, least), time.Duration(a.window)))
}

// low returns the number of remaining URLs at which a host requests more: half of its window, none
// while the windows of all are full.
func (a *appetite) low(l *Lease) int {
	if a.of.Full() {
		return 0
	}
	return a.target(l) / 2
}

// ask returns how many URLs are requested for a host that has left URLs.
func (a *appetite) ask(l *Lease, left int) int {
	if a.of.Full() {
		return 1
	}
	return a.target(l) - left
}
