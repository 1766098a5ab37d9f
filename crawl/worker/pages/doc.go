// Package pages processes the results of a worker's exchanges, between exchange and report: bodies
// are digested and claimed at their content owners, links are extracted, and new bodies are
// archived.
//
// Terms:
//
//   - page: an answer with its body, in transit to the archive.
//   - claim: the query to a content owner whether a body is archived; sent in batches.
//   - confirmation: the message to that owner once the body is on disk.
//   - large: a page that needs as much memory again to be processed; one is at a time.
//
// # Guarantees
//
// The bytes of bodies have one bound, including those still being received: a body without memory
// goes to disk, and if that is full the exchange waits. A page ends once, by [Worker.Report] after
// it is archived, or by [Worker.Leave]; pages in hand when the pipeline is closed are dropped
// unreported.
//
// # Concurrency
//
// Run starts the processors, and the goroutines for claims and confirmations. One mutex guards
// pages and memory; it is held briefly and never during network or disk access, nor during calls of
// a [Worker] except Laden.
package pages
