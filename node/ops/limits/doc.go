// Package limits enforces the resource limits of a peer: processor, memory, disk and link.
//
// [Limits] asks package volunteer, twice a second and after each change, whether the peer may fetch
// and with which limits. Each active rule has a reason and an end condition. Limits then sets the
// controls of the worker and of the [Line]: pause (fetches in progress have one second, then they
// are aborted), number of fetchers, bandwidth, memory. A share of processor time is enforced by
// starting no fetch while usage is above it. Values of `limits set`, a pause, and the traffic of
// the day and the month are stored and survive a restart.
//
// [WatchDisk] stops the peer before its disk is full.
//
// # One line for all connections
//
// All TCP connections, to sites and to peers, share one [Line] (crawl/bandwidth), so that one limit
// covers both; under contention each kind gets a share. QUIC traffic is charged afterwards, as
// debt. Handoffs and archive transfers may use two fifths of the upload limit, so that they do not
// delay leases and reports.
package limits
