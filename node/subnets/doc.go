// Package subnets is what the ring keeps of subnets and of the indexes that lead to them (package
// crawl/placement/ipmicra; papers 2.5).
//
// [Store] keeps the records whose places on the ring this peer serves: a plain state machine over a
// key-value store. Whoever placed something sends what it changed, and records merge in whatever
// order that comes; so nothing is coordinated, and a record that moves to another peer, or comes
// back from a copy, is merged in the same way. [Service] is both sides of the wire: it answers for
// the Store, one request after another, and asks the peers that answer for the others. What it has
// answered is on the disks that count.
//
// A record of a subnet is one value. An index is a value for each of its entries, so that a
// delegation does not rewrite the hundreds of kilobytes which the index of a large range has.
//
//	place on the ring (16 bytes), 1                                                     the record of a subnet
//	place on the ring (16 bytes), 2 or 3, bytes of an address (one), address, bits (one)    an entry of an index: an index with this entry alone
package subnets
