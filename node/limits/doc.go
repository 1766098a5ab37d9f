// Package limits keeps a peer within what it may use of somebody's machine: processor, memory, disk and link.
//
// [Limits] asks package volunteer, twice a second and after each change, what holds now, and moves the levers of the worker and of the [Line], on which all
// connections are. What `limits set` gave, a pause and the bytes of the day and the month outlast a restart.
//
// Beside it stand those who watch the peer: [Stalls] notices that nothing moves though there is work, [WatchDisk] ends the peer before its disk is full, and
// [GiveBack] returns memory when the peer comes to rest.
//
// # What a peer may use
//
// node/volunteer decides, from rules, a pause by a person, what the machine tells and the bytes of
// the day and the month, whether the peer fetches now and up to which caps; each rule that holds
// says why and what ends it. node/limits asks it twice a second, and at once after a change, and
// moves the levers: pause of the worker (what is under way has a second, then it is broken off),
// number of fetchers, caps, memory. A share of processor time is kept by having no fetcher begin
// anything while more was used. What limits set gives, a pause and the counts are in the store.
//
// All TCP connections, those of sites and those of peers, are on one line (node/limits/line.go,
// crawl/bandwidth), so one cap holds over both; each kind gets its part when both want more. What
// goes over QUIC is paid for afterwards, as debt. Records that move and archives that are fetched
// may take two fifths of what goes up: with more of them ahead on a connection, leases and reports
// would come late.
package limits
