// Package volunteer decides what a peer may use of a machine that belongs to somebody: whether it
// fetches at all now, and up to which bounds.
//
// Its words:
//
//   - rules: what was set: caps, quotas, hours, and what the peer is to give way to.
//   - observed: what the machine tells at one moment (node/volunteer/machine looks).
//   - hold: a rule that holds now, with why, its effect (pause or slow) and what ends it.
//   - decision: all holds, and the caps in force.
//   - ledger: bytes of this day and this month, for the quotas.
//   - pacer: rations processor time.
//
// Everything here is plain: it takes the time as an argument, starts nothing, and reads neither
// clock, disk nor network. What is not known never pauses: a desktop without a battery, or a system
// that does not tell, must not keep a peer from working.
package volunteer
