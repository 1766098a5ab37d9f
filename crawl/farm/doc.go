// Package farm finds hosts without end: hosts of a few pages each, no trap by themselves, that lead
// to ever more hosts. There is no end of names below a domain, and domains cost little.
//
// [Farm] is a plain value without clock, goroutine or lock, some kilobytes, in two places:
//
//   - one for each registrable domain and job, where the owner of the domain's name is told what
//     the first pages of its hosts say ([Farm.Observe]). A domain is full if its hosts, one after
//     the other, say what other hosts of it have said and bring nothing but more such hosts.
//   - one for each job on a peer, that looks at pages which lead to hosts nobody there knew
//     ([Farm.Brings]), and says how many of these the page may bring.
//
// A host counts once. One that says something of its own takes off what nineteen add, so that wikis
// in all languages and blogs of many people are no farm; so does a host with a link to one that is
// known already where hosts bring hosts, since sites of real people lead to places that others lead
// to as well.
package farm
