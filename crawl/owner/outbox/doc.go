// Package outbox implements the memory queue of links for the owners of other hosts. An entry holds
// the links of one page; it stays on disk until the last of them is acknowledged, so all of them
// are sent again after a crash. The package reads no disk: it tracks where the scan for further
// entries continues.
//
// Memory is bounded; no link is returned twice while its entry is in memory; and every entry is
// found, since a scan for those on disk is repeated until it has loaded all of them.
package outbox
