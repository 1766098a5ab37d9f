// Package lookup finds the owner of a key by asking one peer after another: Search is one iterative
// look-up as a plain state machine, Drive makes its calls, and ChoosePosition looks up candidates
// for a place in the ring.
//
// Its promises: a Search has no goroutine, clock or network, is bounded in calls and in peers kept
// whatever strangers answer, and is not safe for concurrent use. What it finds is the owner's own
// word and that of another peer; who says so alone is believed only where no other answers. When
// Drive or ChoosePosition returns no call is in flight.
package lookup
