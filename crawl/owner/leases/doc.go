// Package leases gives hosts to workers: it asks where a host is to go and offers it there
// ([Placer]), begins and ends the leases ([Leases]), and grants URLs under them ([Granter]).
//
// It promises that a host has one live lease at most, that nothing is granted before the bar of the
// last one or the rest that the host is owed, and that what was out when a lease ends is pending
// again, or was told of. Not safe for concurrent use.
package leases
