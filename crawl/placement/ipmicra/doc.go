// Package ipmicra is the placement of IPMicra (Papapetrou and Samaras, 2004; papers, section 2):
// whole subnets are delegated to crawlers, along the hierarchy of IP ranges as the registries know
// it, by as few probes as that hierarchy allows.
//
// Its words. A *network* is a registered range with the organisation that registered it; the [Tree]
// nests them by inclusion. A *unary* range has one address; it is passed over when a site is
// located. The *subnet* of a site is the smallest range around it that is not unary. A subnet is
// *delegated* when it has a *worker*, who crawls all its sites without another probe. T is the
// threshold: the first worker whose probe is under it takes the subnet.
//
// The algorithm is [Machine.Next], a function of what is known: of the tree, of the view of one
// placement and of the records that [Knowledge] holds. It names the records it lacks, or one peer
// to probe, or the worker with the records that this changed; called again with what it asked for
// it comes further. So the same lines run over one memory that all crawlers share, as in the paper
// ([Strategy]), and over records that lie at ring owners (papers 2.5), where nobody coordinates:
// records are small, bounded, and merge in whatever order they arrive.
//
// Records are named by ranges and organisations, not by places in a tree. So peers whose registry
// data are of different dates still share what both know, and a tree that is built anew finds the
// records of all ranges that stayed. A range that is new has the one before looked up in the tree
// before ([Machine]): its worker takes the site unprobed, and so no address loses its worker.
//
// Nothing here has a goroutine, clock, disk or network, and nothing is safe for concurrent use but
// a [Tree], which does not change.
//
// # Who knows the subnets
//
// With --placement ipmicra the ring takes the place of the paper's coordinator. The record of a
// subnet, and the indexes by range and by organisation that lead to it, lie with the owners of
// their hashes, have replicas, and move as hosts and bodies do (node/subnets).
//
// Before anybody probes, an owner of hosts asks for the record of their subnet, mostly one question
// for many hosts. Only where the subnet has no worker does it read the indexes, in batches and a
// few seconds old at most, and it sends back what it learnt (node/placing). Searches by one owner
// take turns. Two owners that delegate one subnet at the same moment both probe, and merging leaves
// one delegation.
//
// A peer whose file of ranges has changed reads it again. Peers need not do so at the same time:
// where one has a range that another does not know, each goes by its own.
//
// A worker may be no candidate of an owner: it is not in its leaf set, or busy. Then that owner
// searches on and keeps its choice to itself; apoidea host says so. A subnet is delegated anew when
// downloads become slower, or when an owner finds its worker gone. When an owner takes a host from
// a worker that has its hands full, the host's subnet goes to the next best crawler of its probes.
// What could not be read counts as not there, which costs probes and nothing else.
//
// The counter of an epoch may not exceed the number of seconds that there were, and nothing may be
// dated ahead. So nobody can pin a record for longer than an hour. Merging stays independent of
// order, since the bound depends on the time and not on what is there.
package ipmicra
