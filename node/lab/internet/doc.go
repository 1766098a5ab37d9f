// Package internet is the internet of an experiment: how far hosts are from each other, which
// addresses they have, what databases say about where they stand, and how long a download takes.
//
// Its words:
//
//   - a *host* is a crawler or a site, numbered from 0. Measured internets have as many as their
//     matrix has rows, synthetic ones no end.
//   - a *network* is a range of addresses as registries know it, with the organisation that holds
//     it. Networks nest: registry block, provider, organisation, its subnets. A registry may not
//     know all of them.
//   - a *place* is a city. Where a host stands decides its round trips; where databases believe
//     that it stands may be another place.
//
// There are two kinds. [Load] with a matrix of measured round trips, with the addresses of its
// nodes and with registry data where they are given: nothing is invented beside what the files say,
// but one address within a prefix, drawn from the seed. Without a matrix, and with [Synthetic]:
// everything is made from the seed, see world.go for how; its round trips have about the median,
// the spread and the violated triangles of measured ones ([Stats]).
//
// An [Internet] never changes once it is made: it is safe for concurrent use, its memory does not
// grow with the hosts met, and host i is the same whatever was asked before.
package internet
