// Package sim simulates many peers in virtual time, in one goroutine, from a seed: the node's state
// machines, with a simulated network of message sizes, latency, loss and failures. Equal seeds give
// equal runs, event for event.
//
// The ring and its network are those of dht/dhtsim, which tests of the ring use as well. The
// simulations are
//
//   - [RunChurn]: peers join and crash with exponential sessions; it measures how many keys have
//     the wrong owner or none.
//   - RunCrawl, in the tests only: peers with the logic of the node crawl a synthetic web under
//     churn. The state machines are the node's own: owner.Owner, mailbox.Mailbox, session.Machine
//     and visits.Machine of the worker, dedup.Content, replica.Source and Copies, handoff.Keeper
//     and Settler, placement.RTT. Their drivers are reimplemented without goroutines, with the
//     node's rules: crawlpeer_test.go for the owner's loop, worker_test.go for the worker's
//     fetches, shipping_test.go for replication, moving_test.go and records_test.go for handoff,
//     outbox_test.go and bodies_test.go. The result is judged by the servers' request logs and the
//     generated web.
//
// Not simulated are TCP, encryption and multiplexing overhead, and kad-dht's own maintenance; a
// refresh of a routing table draws random live peers. A crawl has no robots.txt and no archive, and
// every peer has its one job.
package sim
