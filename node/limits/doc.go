// Package limits keeps a peer within what it may use of somebody's machine: processor, memory, disk
// and link.
//
// [Limits] asks package volunteer, twice a second and at once after each change, whether the peer
// may fetch now and up to which caps. Each rule that holds says why and what ends it. Limits then
// moves the levers of the worker and of the [Line]: pause (exchanges under way have a second, then
// they are broken off), number of fetchers, caps, memory. A share of processor time is kept by
// letting no fetcher begin anything while more was used. What `limits set` gave, a pause, and the
// bytes of the day and the month are in the store and outlast a restart.
//
// Three others watch the peer: [Stalls] notices that nothing moves though there is work,
// [WatchDisk] ends the peer before its disk is full, and [GiveBack] returns memory when the peer
// comes to rest.
//
// # One line for all connections
//
// All TCP connections, to sites and to peers, are on one [Line] (crawl/bandwidth), so one cap holds
// over both, and each kind gets its part when both want more. What goes over QUIC is paid for
// afterwards, as debt. Records that move and archives that are fetched may take two fifths of what
// goes up: with more of them waiting on a connection, leases and reports would come late.
package limits
