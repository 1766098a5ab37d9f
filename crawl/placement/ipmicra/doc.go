// Package ipmicra is the placement of IPMicra (Papapetrou and Samaras, 2004; papers, section 2):
// whole subnets are delegated to crawlers, along the registries' hierarchy of IP ranges, with as
// few probes as that hierarchy permits.
//
// Terms: a *network* is a registered range with its organization; the [Tree] nests them by
// inclusion. A *unary* range has one address; it is skipped when a site is located. The *subnet* of
// a site is the smallest range around it that is not unary. A subnet is *delegated* when it has a
// *worker*, which crawls all its sites without another probe. T is the threshold: the first worker
// whose probe is below it gets the subnet.
//
// The algorithm is [Machine.Next], a function of the tree, of the view of one placement and of the
// records in [Knowledge]. It returns the keys of missing records, or one peer to probe, or the
// worker with the changed records; the caller repeats the call with what was requested. So the same
// code runs over one memory that all crawlers share, as in the paper ([Strategy]), and over records
// that are stored at ring owners (papers 2.5), without a coordinator: records are small, bounded,
// and merge in any order.
//
// Records are keyed by ranges and organizations, not by positions in a tree. So peers with registry
// data of different dates share the records of common ranges, and a new tree finds the records of
// all unchanged ranges. A new range is looked up in the previous tree ([Machine]): its worker gets
// the site unprobed, so no address loses its worker.
//
// Nothing here has a goroutine, clock, disk or network, and nothing is safe for concurrent use
// except a [Tree], which is immutable.
//
// # Where records are stored
//
// With --placement ipmicra the ring replaces the paper's coordinator. The record of a subnet, and
// the indexes by range and by organization that contain it, are stored at the owners of their
// hashes, replicated, and handed off as hosts and bodies are (node/services/subnets).
//
// Before any probe, an owner of hosts requests the record of their subnet, mostly one request for
// many hosts. Only if the subnet has no worker does it read the indexes, in batches and a few
// seconds old at most, and it sends its changes back (node/services/placer). Searches by one owner
// are serialized. Two owners that delegate one subnet at the same moment both probe, and merging
// leaves one delegation.
//
// A peer reads its file of ranges at start. Peers need not have the same: each uses its own ranges.
//
// A worker may not be a candidate of an owner: it is not in its leaf set, or busy. Then that owner
// continues the search and does not publish its choice; apoidea host reports this. A subnet is
// delegated again when downloads become slower, or when an owner finds its worker gone. When an
// owner moves a host away from an overloaded worker, the host's subnet goes to the next best
// crawler by its probes. Unreadable records count as missing, which only costs probes.
//
// The counter of an epoch may not exceed the number of seconds since 1970, and no timestamp may be
// in the future. So a record cannot be pinned for longer than an hour. Merging stays independent of
// order, since the bound depends on the time and not on the present record.
package ipmicra
