// Package limits keeps a peer within what it may use of somebody's machine: processor, memory, disk and link.
//
// [Limits] asks package volunteer, twice a second and after each change, what holds now, and moves the levers of the worker and of the [Line], on which all
// connections are. What `limits set` gave, a pause and the bytes of the day and the month outlast a restart.
//
// Beside it stand those who watch the peer: [Stalls] notices that nothing moves though there is work, [WatchDisk] ends the peer before its disk is full, and
// [GiveBack] returns memory when the peer comes to rest.
package limits
