// Package volunteer decides what a peer may use of a volunteer's machine: whether it fetches now,
// and within which limits.
//
// Terms:
//
//   - rules: the settings: limits, quotas, hours, and conditions for a pause.
//   - observed: the state of the machine (from node/ops/volunteer/machine).
//   - hold: an active rule, with its reason, effect (pause or slow) and end condition.
//   - decision: all holds, and the effective limits.
//   - ledger: traffic of this day and this month, for the quotas.
//   - pacer: limits processor time.
//
// The package has no side effects: it takes the time as an argument, starts no goroutine, and reads
// neither clock, disk nor network. An unknown fact never pauses a peer: a desktop without a
// battery, or a system without that information, must not stop it.
package volunteer
