// Package leases assigns hosts to workers: it requests placements and sends offers ([Placer]),
// begins and ends leases ([Leases]), and grants URLs under them ([Granter]).
//
// Invariants: a host has at most one live lease; nothing is granted before the not-before time;
// URLs that are out when a lease ends are pending again or were reported. Not safe for concurrent
// use.
package leases
