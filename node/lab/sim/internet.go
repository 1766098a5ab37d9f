package sim

import "time"

// Internet says how long a message and its answer take between two hosts, numbered from 0 without an end: never 0, never negative.
type Internet interface {
	RTT(i, j int) time.Duration // the time of a message and its answer
}
