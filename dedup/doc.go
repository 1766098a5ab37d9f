// Package dedup answers two questions of a crawl: was this URL seen, and was this body archived
// before.
//
// # Terms
//
// A set holds the seen URLs of one job on one host, as uniform 64-bit hashes. A negative answer is
// exact; the caller looks a positive one up in the exact set on disk. A filter is a
// Bloom filter; layers are several of them, each twice as large as the one before, so that a set of
// any size keeps its rate of false positives (a scalable Bloom filter). A claim is a peer's
// announcement that it is about to archive a body; a record is the confirmation.
//
// # Memory and disk
//
// This package holds only memory; Loader and the record store are durable. Losing the memory costs
// work, but no correctness: sets and filters are rebuilt from disk, and a lost claim means that a
// body may be stored twice.
//
// Apoidea (2.3, 3.2) uses only a Bloom filter for both questions, so a false positive is a page
// never crawled. Here the filter precedes the exact set: most lookups are of absent keys, and cost
// no read. The paper's filter alone is available as Paper.
//
// # Handoff
//
// Records of bodies move between owners, and are recovered from replicas, as raw keys and values.
// Import is a union: of two records of one body the smaller wins (design, section 4, invariant 4).
// The filter keeps removed keys until they are half of it; a lookup of one costs a read and gets
// the right answer.
//
// # Concurrency
//
// All types are plain state for one goroutine at a time, and time is an argument.
package dedup
