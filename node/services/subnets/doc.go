// Package subnets stores the records of subnets, and of the indexes that lead to them, on the ring
// (package crawl/placement/ipmicra; papers 2.5).
//
// [Store] stores the records whose ring positions this peer owns: a state machine over a key-value
// store. Peers send the changes of their placements, and records merge in any order; so no
// coordination is needed, and a record from a handoff or a replica is merged in the same way.
// [Service] is server and client: it serves the Store, one request after another, and requests
// other records from their owners. A reply is sent when its changes are on disk, here and at the
// required replicas.
//
// A record of a subnet is one value. An index has a value for each of its entries, so that a
// delegation does not rewrite the hundreds of kilobytes of a large range's index.
//
//	ring position (16 bytes), 1                                                     the record of a subnet
//	ring position (16 bytes), 2 or 3, bytes of an address (one), address, bits (one)    an entry of an index: an index with this entry alone
package subnets
