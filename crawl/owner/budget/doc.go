// Package budget implements a peer's part of a job's budget of pages and bytes: drawing, reserving
// for URLs, and returning. It is a state machine without access to hosts, disk or clock.
//
// No token is spent twice: a drawn token is free, reserved for a URL, used or returned, and the sum
// of these never exceeds what was drawn.
package budget
