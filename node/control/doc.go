// Package control is the control API of a running peer: the types both sides share, the server that
// a peer offers on a unix socket in its data directory, and the client that the command line uses.
//
// It speaks HTTP/1.1 with JSON documents; streams are one JSON document a line and end with the
// connection. A failure is an Error document with a Kind, which the command line turns into an exit
// code. The API is reachable by whoever may open the socket (mode 0600): the file system is the
// access control. On TCP, where every user of the machine could connect, it wants a token with each
// request.
package control

import (
	"context"
	"errors"
	"time"
)

// Kind classes failures for exit codes.
type Kind string

// The kinds of failure.
const (
	KindFailed  Kind = "failed"
	KindUsage   Kind = "usage"
	KindNoPeer  Kind = "no_peer"
	KindTimeout Kind = "timeout"
	KindRefused Kind = "refused"
	KindAlone   Kind = "alone" // done, as far as it can be with nobody else in the ring
)

// Error is a failure that the other side of the socket reported.
type Error struct {
	Kind Kind   `json:"kind"`  // one of the kinds above
	Text string `json:"error"` // a sentence for people
}

// Error is the text alone: the kind is for programs.
func (e *Error) Error() string { return e.Text }

// Usage makes an error that tells the user what was wrong with the request.
func Usage(text string) error { return &Error{Kind: KindUsage, Text: text} }

// Refused makes an error for what policy forbids.
func Refused(text string) error { return &Error{Kind: KindRefused, Text: text} }

// KindOf returns the kind of err, KindFailed for errors of other packages.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return KindTimeout
	}
	return KindFailed
}

// Backend is what a peer does for the API. All methods are safe for concurrent use and return when
// ctx ends.
type Backend interface {
	// Status returns this peer's status; with ring the sums over all members reached.
	Status(ctx context.Context, ring bool) (*Status, error)
	// Ring walks the circle once.
	Ring(ctx context.Context) (*Ring, error)
	// Watch calls fn for what happens on the ring until ctx ends.
	Watch(ctx context.Context, fn func(RingEvent) error) error
	// Lookup finds the owner of a URL's or host's key.
	Lookup(ctx context.Context, query string) (*Lookup, error)
	// Hosts lists the hosts of this peer, or of all members.
	Hosts(ctx context.Context, ring bool, fn func(HostLine) error) error
	// Peers lists this peer's neighbours.
	Peers(ctx context.Context) ([]PeerLine, error)
	// Host tells all that is known of a host, asking its owner.
	Host(ctx context.Context, host string) (*Host, error)
	// Why tells why a URL is or is not crawled, asking its owner.
	Why(ctx context.Context, url string) (*Why, error)

	// OptOutCheck tells whether a URL is opted out, asking its owner.
	OptOutCheck(ctx context.Context, url string) (*OptOutCheck, error)
	// OptOuts lists what this peer knows of opt-outs.
	OptOuts(ctx context.Context) (*OptOuts, error)
	// SetOptOut tells the ring that a host or domain opts out, or withdraws that.
	SetOptOut(ctx context.Context, subject, action string) (*OptOut, error)

	// Post posts a job and returns when its seeds are on disk at their owners.
	Post(ctx context.Context, spec JobSpec) (*Job, error)
	// AddSeeds hands more seeds to a job, and returns when they are on disk at their owners. Those
	// that the job knows it knows once.
	AddSeeds(ctx context.Context, id string, urls []string) error
	// Jobs lists the jobs of the ring with their counts.
	Jobs(ctx context.Context) ([]Job, error)
	// Job returns one job by its ID or an unambiguous beginning of it.
	Job(ctx context.Context, id string) (*Job, error)
	// JobKey tells the key that signs what is posted and changed here.
	JobKey(ctx context.Context) (*JobKey, error)
	// SetJob changes a job's state: pause, resume, cancel, or finish, which notes when a job was
	// seen done.
	SetJob(ctx context.Context, id, action string) (*Job, error)

	// Wait calls fn now and then, until the ring has no outstanding work of the job, or of any job
	// if it is empty. URLs whose next try is further away than the patience do not count: a
	// patience of 0 has no end, a negative one is the peer's own.
	Wait(ctx context.Context, job string, patience time.Duration, fn func(Progress) error) error
	// Pause stops fetching for a while, or with 0 until Resume, which ends no more than such a
	// pause: Limits tell of what else holds.
	Pause(ctx context.Context, d time.Duration) (*Limits, error)
	Resume(ctx context.Context) (*Limits, error) // ends a pause that Pause began
	// Limits tells what is set, what holds and why, and what is used.
	Limits(ctx context.Context) (*Limits, error)
	// SetLimits changes settings by their keys, all or none, at once and over restarts; the value
	// "default" takes a change back.
	SetLimits(ctx context.Context, values map[string]string) (*Limits, error)
	// Dashboard says where the web page is and makes a link that logs a browser in.
	Dashboard(ctx context.Context) (*Dashboard, error)
	// Leave ends the peer in good order; it returns when everything is handed over and the peer is
	// about to exit. The end of ctx ends the wait alone.
	Leave(ctx context.Context) error
	Results
}
