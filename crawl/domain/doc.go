// Package domain is what the ring keeps of a registrable domain, such as example.co.uk, at the
// owner of its name's hash (design, section 6):
//
//   - which of its hosts a job may have, at most so many: a wildcard in the DNS makes up names
//     without end; and of one name, or one address, at most so many ports;
//   - what the first pages of these hosts say: hosts that all say the same are a farm, however few
//     pages each of them has;
//   - which parts of it have opted out, with everything below them.
//
// [Store] is a plain state over records that move, and are copied, like those of hosts. Merging
// them is a union: any number of times and in any order it gives the same. A Store is not safe for
// concurrent use.
//
// # Who admits hosts
//
// The owner of a host asks the owner of its registrable domain (golang.org/x/net/publicsuffix) once
// for each job whether the job may have the host. Until the answer is there, nothing of the host is
// granted; then it is kept with the host's counters. The domain itself and www below it are always
// admitted, so a crawl of many sites asks nobody. Once a domain is known to be full, its new hosts
// are turned away without a question or a record.
package domain
