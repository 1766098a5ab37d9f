// Package budget is what a peer draws of a job's budget of pages and bytes, promises to URLs, and
// gives back: a plain state machine that knows nothing of hosts, disk or clock.
//
// It promises that no token is spent twice: what was drawn is free, bound to a URL, used or given
// back, and the sum of those is never more than what was drawn.
package budget
