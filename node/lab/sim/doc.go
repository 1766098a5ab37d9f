// Package sim runs many peers in virtual time, in one goroutine, from a seed: the state machines that the node runs, between which a simulated
// network carries encoded sizes, latencies, losses and deaths. The same seed gives the same run, event for event.
//
// Its layers:
//
//   - [Clock]: events in the order of their time. An hour in which nothing happens costs nothing.
//   - [Internet]: how far peers are from each other, as node/lab/internet knows or makes it.
//   - [Network]: calls between hosts that can be dead, paused, cut off; bytes are counted by purpose.
//   - [RingPeer] and [Ring]: dht.Ring driven over it, with a routing table like kad-dht's, up to 10,000 peers; and the truth to hold it against.
//   - [RunChurn]: peers that come and die by exponential sessions, and how many keys meanwhile have the wrong owner or none.
//   - [RunCrawl]: peers with the logic of the node crawl a synthetic web while they come and die. The state machines are the node's own: owner.Owner,
//     session.Machine and frontier.Frontier of the worker, dedup.Content, replica.Source and Copies, custody.Keeper and Settler, placement.RTT. What drives them
//     is written anew here without goroutines, and follows the node rule for rule: crawlpeer.go the owner's loop, worker.go the worker, shipping.go replication,
//     moving.go and records.go keeping, outbox.go and bodies.go what their names say. Servers that note who asks when, and the web's own truth, judge.
//
// What is not simulated: the bytes of TCP, encryption and multiplexing around a message, and kad-dht's own upkeep; a refresh of a routing table takes
// living peers at random, as kad-dht finds them by asking around. A crawl has no robots.txt and no archive, and every peer knows its one job.
package sim
