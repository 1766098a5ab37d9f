// Package workers is for peers that others cannot dial, the *workers*. Reach tells whether this
// peer is one, Attach chooses the ring peers that a worker is attached to, and Guests are the
// workers attached to a ring peer.
//
// Its promises: all three are plain state machines without goroutine, clock or network, bounded
// whatever strangers say, and with the same inputs they do the same. None is safe for concurrent
// use.
package workers
