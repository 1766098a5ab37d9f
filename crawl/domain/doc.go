// Package domain is what the ring keeps of a registrable domain, such as example.co.uk, at the owner of its name's hash (design, section 6):
//
//   - which hosts of it were admitted to a job, at most so many, against names made up without end behind a wildcard in the DNS;
//   - what their first pages say, since hosts of which each says what the others said are a farm, however few pages each of them has;
//   - which parts of it have opted out with everything below.
//
// [Store] is a plain state over records that move, and are copied, like those of hosts: a union, so merging them any number of times in any order gives
// the same. It is not safe for concurrent use.
//
// # Who admits hosts
//
// The owner of a host asks the owner of its registrable domain (golang.org/x/net/publicsuffix)
// once for each job whether the job may have the host; until then nothing of it is granted. The
// domain itself and www below it are always admitted, so a crawl of many sites asks nobody; and
// once a domain is known to be full its new hosts are turned away without a question or a record.
// The answer is kept with the host's counters.
package domain
