// Package dedup answers two questions of a crawl: was this URL seen, and was this body archived
// before.
//
// # Words
//
// A set holds the seen URLs of one job on one host, as uniform 64-bit hashes. An answer No is
// certain, a Yes too; a Maybe must be looked up in the exact set on disk, which is the caller's. A
// filter is a Bloom filter; layers are several of them, each twice as large as the one before, so
// that a set of any size keeps its share of false positives (a scalable Bloom filter). A claim is a
// peer's word that it is about to archive a body; a record is the confirmation that it did.
//
// # What lives where
//
// Everything here is memory: what is durable lies behind Loader and Records. Losing the memory
// costs work, never an answer: sets and filters are built anew from the disk, and a lost claim
// means that a body may be stored twice.
//
// Apoidea (2.3, 3.2) has a Bloom filter alone in both places, so that a false positive is a page
// never crawled. Here the filter stands in front of the exact set: most questions are about what is
// not there, and cost no read. The paper's filter alone is there as Paper.
//
// # Moving
//
// Records of bodies move between owners, and come back from copies, as raw keys and values.
// Importing them is a union: of two records of one body the smaller stands (design, section 4,
// invariant 4). The filter keeps the keys of what was removed until half of it is gone; a question
// about one of them costs a read and gets the right answer.
//
// # Concurrency
//
// Sets may be used by many goroutines. Filter and Content are plain state for one at a time, and
// time comes in as an argument.
package dedup
