// Package sim runs many peers in virtual time, in one goroutine, from a seed: the state machines
// that the node runs, between which a simulated network carries encoded sizes, latencies, losses
// and deaths. The same seed gives the same run, event for event.
//
// The ring and the network beneath it are those of dht/dhttest, which tests of the ring use as
// well. On it stand
//
//   - [RunChurn]: peers that come and die by exponential sessions, and how many keys meanwhile have
//     the wrong owner or none.
//   - [RunCrawl]: peers with the logic of the node crawl a synthetic web while they come and die.
//     The state machines are the node's own: owner.Owner, mailbox.Mailbox, session.Machine and
//     visits.Machine of the worker, dedup.Content, replica.Source and Copies, custody.Keeper and
//     Settler, placement.RTT. What drives them is written anew here without goroutines, and follows
//     the node rule for rule: crawlpeer.go the owner's loop, worker.go the worker's exchanges,
//     shipping.go replication, moving.go and records.go keeping, outbox.go and bodies.go what their
//     names say. Three rules are not the node's, since the figures of docs/experiments.md were made
//     so (see newOutbox, message and worker.fetch). Servers that note who asks when, and the web's
//     own truth, judge.
//
// What is not simulated: the bytes of TCP, encryption and multiplexing around a message, and
// kad-dht's own upkeep; a refresh of a routing table takes living peers at random, as kad-dht finds
// them by asking around. A crawl has no robots.txt and no archive, and every peer knows its one
// job.
package sim
