// Package hosts implements the table of an owner's hosts: their leases, state and schedule. It
// handles no messages; package owner processes those, and decides.
//
//   - [Table] holds the hosts in memory, loads them from the store, and writes changes.
//   - [Host] is a host: its record, its accounts in the ledger ([Job]), its lease ([Tenure],
//     [Lease]), and the search for a worker (search.go).
//   - [Agenda] schedules hosts, and holds the queue of hosts that wait for a worker. A changed host
//     is marked by [Table.Touched] or [Agenda.Changed] (accounts by the ledger), and the end of a
//     step schedules all marked hosts.
//   - [JobTable], [Domains], [Traps] and [Rests] hold the state of jobs, of registrable domains, of
//     the trap rules, and of waiting hosts.
//   - [Step] is shared by all parts: the time, the write buffer, and the results of the step.
//
// Invariants: a host with work is found again after eviction or a crash; memory holds at most
// [Config].MaxHosts hosts besides busy ones; the reason why a host waits is available without
// reading the store.
//
// A host's record changes by the rules of package ondisk alone; a tenure and a search follow the
// tables of their states. Not safe for concurrent use.
package hosts
