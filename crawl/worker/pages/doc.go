// Package pages works on what the exchanges of a worker brought, between exchange and report:
// bodies are digested and links extracted, the owners of bodies are asked whether they were met
// before, and what is new is archived.
//
// Its words:
//
//   - page: an answer with its body, on its way to the archive.
//   - claim: the question to the owner of a body whether it was met before; answered in batches.
//   - confirmation: what that owner is told once the body is on disk.
//   - large: a page that takes as much memory again to be worked on; one is at a time.
//
// # What is promised
//
// The bytes of bodies have one bound, those included that are still coming: what memory has no room
// for goes to disk, and where that takes none the exchange waits. A page ends once, by
// [Worker.Report] after it is archived, or by [Worker.Leave]; what is in hand when the pipeline is
// closed is dropped, and nothing was said of it.
//
// # Concurrency
//
// Run starts the processors and who asks and tells the owners of bodies. One mutex guards pages and
// memory; it is held for moments and never over the network or the disk, nor while a [Worker] is
// called but for Laden.
package pages
