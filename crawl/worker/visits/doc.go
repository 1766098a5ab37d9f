// Package visits is what a worker decides, as a plain state machine: which host is asked next and
// for what, what an answer leads to, and when a host is left alone or given back. It has no
// goroutine, no lock, no clock, no network and no disk.
//
// Its words:
//
//   - host: a lease that was granted, with what is known of its host.
//   - window: the URLs of a host that were granted and are not visited yet.
//   - visit: one URL of a host, from Next to Fetched or Ended, with one request at most: for the
//     URL, or for the robots.txt that has to be known before; then the URL waits again.
//   - origin: scheme, host and port: what a robots.txt speaks of.
//   - hang: a request of which nothing came.
//   - held: a host whose visit is kept open, as its address has had its requests for now.
//   - governed: admitted under a cap on bandwidth, by a governor.
//
// # How to drive it
//
// Under one lock, unless it says otherwise: Sessions is driven as package session says, and
//
//	v, due := m.Next(now) // nil: look again at due, or after any event
//	step, result := v.Plan(now)
//	Read:  v.Read, m.Keep(v), and plan again
//	Ask:   q := v.Question(), m.Begin, a request that v.Permit allows, result = v.Learn or v.Unasked
//	       (m.Depart comes first where q is at another host)
//	Fetch: m.Begin, a request that v.Permit allows, m.Fetched or result = Failed
//	m.Ended(now, v, result)
//
// A visit is its visitor's: the methods of Visit take no lock, and no two of them run at once. What
// takes time is in these: reading and packing a robots.txt, matching its rules. A page that was
// fetched ends with Processed or Unprocessed. Lapse is to be called when leases may have ended by
// the lease clock.
//
// # What is promised
//
// A host has one visit at a time, and rests after each as package frontier says. A URL of a window
// is reported once, or given back, or is its owner's again with the end of the lease. Nothing of an
// origin is fetched before its robots.txt is known and admits it. What is held is bounded: URLs and
// files of robots.txt by their bytes, hosts that are remembered by their number.
package visits
