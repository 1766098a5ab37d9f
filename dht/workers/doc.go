// Package workers handles peers that others cannot dial, the *workers*. Reach decides whether this
// peer is one, Attach selects the ring peers that a worker is attached to, and Guests are the
// workers attached to a ring peer.
//
// All three are plain state machines without goroutine, clock or network: deterministic, and
// bounded whatever untrusted peers send. None is safe for concurrent use.
package workers
