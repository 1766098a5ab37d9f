// Package domain stores the state of a registrable domain, such as example.co.uk, at the owner of
// its name's hash (design, section 6):
//
//   - the hosts that a job may have, up to a limit, since a wildcard in the DNS generates names
//     without end; and a limit of ports for one name or address;
//   - the names within it that have opted out, with everything below them.
//
// [Store] is a state machine over records that are handed off and replicated like those of hosts.
// Merging them is a union, idempotent and independent of order. A Store is not safe for concurrent
// use.
//
// # Admission of hosts
//
// The owner of a host asks the owner of its registrable domain (golang.org/x/net/publicsuffix) once
// for each job whether the job may have the host. Until the reply arrives nothing of the host is
// granted; then it is stored with the host's counters. The domain itself and www below it are
// always admitted, so a crawl of many sites needs no requests. Once a domain is known to be full,
// its new hosts are rejected without a request or a record.
package domain
