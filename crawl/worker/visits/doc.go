// Package visits decides which requests a worker makes, as a plain state machine: which host is
// next and for what, what an answer leads to, and when a host is deferred or given back. It has no
// goroutine, no lock, no clock, no network and no disk.
//
// Terms:
//
//   - host: a granted lease, with the state of its host.
//   - window: the URLs of a host that were granted and are not visited yet.
//   - visit: one URL of a host, from Next to Fetched or Ended, with one request at most: for the
//     URL, or for the robots.txt that must be present before; then the URL waits again.
//   - origin: scheme, host and port: the scope of a robots.txt.
//   - hang: a request that timed out without an answer.
//   - held: a host whose visit stays open, as its address has no permits left for now.
//   - governed: admitted by a governor under a bandwidth limit.
//
// # How to drive it
//
// Under one lock, unless stated otherwise: Sessions is driven as package session describes, and
//
//	v, due := m.Next(now) // nil: call again at due, or after any event
//	step, result := v.Plan(now)
//	Read:  v.Read, m.Keep(v), and plan again
//	Ask:   q := v.Question(), m.Begin, a request that v.Permit allows, result = v.Learn or v.Unasked
//	       (m.Depart comes first where q is at another host)
//	Fetch: m.Begin, a request that v.Permit allows, m.Fetched or result = Failed
//	m.Ended(now, v, result)
//
// A visit belongs to its fetcher: the methods of Visit take no lock, and must not be called
// concurrently. They do the slow work: parsing and encoding a robots.txt, matching its rules. A
// page that was fetched ends with Processed. Lapse must be called when leases may
// have ended by the lease clock.
//
// # Guarantees
//
// A host has one visit at a time, and is deferred after each as package frontier defines. A URL of
// a window is reported once, or given back, or returns to its owner with the end of the lease.
// Nothing of an origin is fetched before its robots.txt is present and allows it. Memory is
// bounded: URLs and files of robots.txt by their bytes, remembered hosts by their number.
package visits
