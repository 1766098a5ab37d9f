// Package domain is what the ring keeps of a registrable domain, such as example.co.uk, at the owner of its name's hash (design, section 6):
//
//   - which hosts of it were admitted to a job, at most so many, against names made up without end behind a wildcard in the DNS;
//   - what their first pages say, since hosts of which each says what the others said are a farm, however few pages each of them has;
//   - which parts of it have opted out with everything below.
//
// [Store] is a plain state over records that move, and are copied, like those of hosts: a union, so merging them any number of times in any order gives
// the same. It is not safe for concurrent use.
package domain
