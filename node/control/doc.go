// Package control is the control API of a running peer: the types of both sides, the server on a
// Unix socket in the data directory, and the client of the command line.
//
// The API is HTTP/1.1 with JSON documents; a stream is one JSON document per line and ends with a
// final document. A failure is an Error document whose Kind the command line maps to an exit code.
// File permissions control access to the socket (mode 0600). On TCP, where every user of the
// machine could connect, each request needs a token.
package control

import (
	"context"
	"errors"
	"time"
)

// Kind classifies failures for exit codes.
type Kind string

// The kinds of failure.
const (
	KindFailed  Kind = "failed"
	KindUsage   Kind = "usage"
	KindNoPeer  Kind = "no_peer"
	KindTimeout Kind = "timeout"
	KindRefused Kind = "refused"
	KindAlone   Kind = "alone" // done as far as possible by the only member of the ring
)

// Error is a failure reported by the peer.
type Error struct {
	Kind Kind   `json:"kind"`  // one of the kinds above
	Text string `json:"error"` // text for people
}

// Error returns the text without the kind.
func (e *Error) Error() string { return e.Text }

// Usage returns an error for an invalid request.
func Usage(text string) error { return &Error{Kind: KindUsage, Text: text} }

// Refused returns an error for a request that policy rejects.
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

// Backend is the implementation of the API by a peer. All methods are safe for concurrent use and
// return when ctx ends.
type Backend interface {
	// Status returns this peer's status; with ring, sums over all members reached.
	Status(ctx context.Context, ring bool) (*Status, error)
	// Ring walks the ring once.
	Ring(ctx context.Context) (*Ring, error)
	// Watch calls fn for each ring event until ctx ends.
	Watch(ctx context.Context, fn func(RingEvent) error) error
	// Lookup finds the owner of a URL's or host's key.
	Lookup(ctx context.Context, query string) (*Lookup, error)
	// Hosts lists the hosts of this peer, or of all members.
	Hosts(ctx context.Context, ring bool, fn func(HostLine) error) error
	// Peers lists this peer's neighbors.
	Peers(ctx context.Context) ([]PeerLine, error)
	// Host returns the state of a host from its owner.
	Host(ctx context.Context, host string) (*Host, error)
	// Why returns why a URL is or is not crawled, from its owner.
	Why(ctx context.Context, url string) (*Why, error)

	// Invite makes a peer a member of a ring by invitation, for a time or 0: 30 days. It delivers the
	// certificate if the peer can be reached.
	Invite(ctx context.Context, id string, valid time.Duration) (*Invitation, error)
	// Revoke ends the membership of a peer, and of those that it invited.
	Revoke(ctx context.Context, id string) error
	// Accept takes a certificate for this peer.
	Accept(ctx context.Context, certificate string) (*Admission, error)

	// OptOutCheck returns whether a URL is opted out, from its owner.
	OptOutCheck(ctx context.Context, url string) (*OptOutCheck, error)
	// OptOuts lists the opt-outs at this peer.
	OptOuts(ctx context.Context) (*OptOuts, error)
	// SetOptOut records in the ring that a host or domain opts out or withdraws its opt-out.
	SetOptOut(ctx context.Context, subject, action string) (*OptOut, error)

	// Post posts a job and returns when its seeds are on disk at their owners.
	Post(ctx context.Context, spec JobSpec) (*Job, error)
	// AddSeeds adds seeds to a job and returns when they are on disk at their owners. Known URLs are
	// ignored.
	AddSeeds(ctx context.Context, id string, urls []string) error
	// Jobs lists the jobs of the ring with their counts.
	Jobs(ctx context.Context) ([]Job, error)
	// Job returns one job by its ID or an unambiguous prefix.
	Job(ctx context.Context, id string) (*Job, error)
	// JobKey returns the key that signs jobs and changes made here.
	JobKey(ctx context.Context) (*JobKey, error)
	// SetJob changes a job's state: pause, resume, cancel, or finish, which records when the job was
	// seen done.
	SetJob(ctx context.Context, id, action string) (*Job, error)
	// SetRefresh changes how often a job's pages are fetched again: see JobSpec.Refresh; "off" ends
	// it.
	SetRefresh(ctx context.Context, id, refresh string) (*Job, error)
	// Refresh visits a URL, or all pages of a host, again: now, or in its turn.
	Refresh(ctx context.Context, target string, now bool) (*Refresh, error)

	// Wait calls fn repeatedly until the ring has no outstanding work of the job, or of any job if it
	// is empty. URLs whose next try is later than patience do not count; 0 is no limit, a negative
	// value means the peer's default.
	Wait(ctx context.Context, job string, patience time.Duration, fn func(Progress) error) error
	// Pause stops fetching for d, or with 0 until Resume. Other rules may still pause the peer: see
	// Limits.
	Pause(ctx context.Context, d time.Duration) (*Limits, error)
	Resume(ctx context.Context) (*Limits, error) // ends a pause by Pause
	// Limits returns settings, active throttles and usage.
	Limits(ctx context.Context) (*Limits, error)
	// SetLimits changes settings by key, all or none, immediately and persistently; the value
	// "default" reverts a change.
	SetLimits(ctx context.Context, values map[string]string) (*Limits, error)
	// Dashboard returns the URL of the web page and a link that logs a browser in.
	Dashboard(ctx context.Context) (*Dashboard, error)
	// Leave shuts the peer down; it returns when the handoff is complete and the peer is about to
	// exit. The end of ctx ends only the wait.
	Leave(ctx context.Context) error
	Results
}
