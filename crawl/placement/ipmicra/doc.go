// Package ipmicra is the placement of IPMicra (Papapetrou and Samaras, 2004; papers, section 2): whole subnets are delegated to crawlers, along the
// hierarchy of IP ranges as the registries know it, by as few probes as that hierarchy allows.
//
// Its words. A *network* is a registered range with the organisation that registered it; the [Tree] nests them by inclusion. A *unary* range has one
// address; it is passed over when a site is located. The *subnet* of a site is the smallest range around it that is not unary. A subnet is *delegated*
// when it has a *worker*, who crawls all its sites without another probe. T is the threshold: the first worker whose probe is under it takes the subnet.
//
// The algorithm is [Machine.Next], a function of what is known: of the tree, of the view of one placement and of the records that [Knowledge] holds. It
// names the records it lacks, or one peer to probe, or the worker with the records that this changed; called again with what it asked for it comes
// further. So the same lines run over one memory that all crawlers share, as in the paper ([Strategy]), and over records that lie at ring owners
// (papers, 2.5), where nobody coordinates: records are small, bounded, and merge in whatever order they arrive.
//
// Records are named by ranges and organisations, not by places in a tree. So peers whose registry data are of different dates still share what both know, and a
// tree that is built anew finds the records of all ranges that stayed; [Strategy.Rebuild] does the rest where one memory holds them all.
//
// Nothing here has a goroutine, clock, disk or network, and nothing is safe for concurrent use but a [Tree], which does not change.
package ipmicra
