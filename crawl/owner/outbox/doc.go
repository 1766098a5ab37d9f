// Package outbox is the queue of links that are on their way to the owners of other hosts, as far
// as memory has room for them. An entry holds those of one page; it lies on disk until the last of
// them has arrived, so after a crash they are all sent again. It reads no disk itself: it says
// where the search for entries that it has no room for goes on.
//
// It promises that memory is bounded, that no link is returned twice while its entry is held, and
// that no entry is forgotten: what is not held is searched for until a search has met all of it.
package outbox
