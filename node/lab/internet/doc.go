// Package internet models the internet of an experiment: round-trip times (RTTs) between hosts,
// their addresses, their locations in databases, and download times.
//
// Terms:
//
//   - a *host* is a crawler or a site, numbered from 0. Measured internets have as many as their
//     matrix has rows; synthetic ones are unlimited.
//   - a *network* is a range of addresses in a registry, with its organization. Networks nest:
//     registry block, provider, organization, its subnets. A registry may lack some.
//   - a *place* is a city. The actual place of a host determines its RTTs; databases may list
//     another one.
//
// There are two kinds. [Load] reads a matrix of measured RTTs, optionally with addresses of its
// nodes and registry data; only one address within each prefix is drawn from the seed. Without a
// matrix, and with [Synthetic], everything is generated from the seed, see world.go; its RTTs have
// about the median, spread and triangle violations of measured ones.
//
// An [Internet] is immutable and safe for concurrent use. Its memory does not grow with the hosts
// used, and host i does not depend on earlier calls.
package internet
