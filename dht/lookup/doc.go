// Package lookup finds the owner of a key iteratively: Search is one lookup as a plain state
// machine, Drive makes its calls, and ChoosePosition looks up candidates for a position in the
// ring.
//
// A Search has no goroutine, clock or network, is bounded in calls and memory whatever untrusted
// peers answer, and is not safe for concurrent use. An owner must claim the key and be named by
// other peers; an unconfirmed claim is accepted only if no other peer answers. When Drive or
// ChoosePosition returns, no call is in flight.
package lookup
