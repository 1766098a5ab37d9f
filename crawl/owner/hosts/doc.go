// Package hosts is the table of an owner's hosts: who has a host, what is the matter with it, and
// when it is looked at next. It knows nothing of messages; package owner brings those, and decides.
//
//   - [Table] has the hosts in memory, finds them again in the store, and writes what changed.
//   - [Host] is one of them: its record, its accounts in the ledger ([Job]), who holds it
//     ([Tenure], [Lease]), and whether a worker is sought for it (search.go).
//   - [Agenda] says when a host is looked at next, and which hosts wait for a worker. It is the
//     only place where one is scheduled: whoever changes a host says so ([Table.Touched],
//     [Agenda.Changed]; of accounts the ledger does), and the end of a step schedules all of them.
//   - [JobTable], [Domains], [Traps] and [Rests] are what is known of jobs, of registrable domains,
//     of what pages say, and of the hosts that rest.
//   - [Step] is what all parts stand on: the time, what is written, and what comes of the step.
//
// It promises that a host with work is found again after it was dropped from memory or after a
// crash, that memory holds [Config].MaxHosts hosts and those at work, and that what a host waits
// for can be said at any time without reading the store.
//
// A host's record changes by the rules of package ondisk alone, a tenure and a search by the tables
// of their states. Not safe for concurrent use.
package hosts
