// Package repair checks and repairs the data directory of a stopped peer.
//
// [Check] reads the whole database, whose blocks have checksums, and the whole archive, whose
// records have digests, and compares the outcomes of pages with the archive. A note is a normal
// result of a crash. A page is lost if the database has its outcome and no archive file has its
// record.
//
// [Run] repairs what Check finds, and reads no file of the database by itself:
//
//   - A corrupt database is moved to damaged-TIME and replaced by a new one with the same identity
//     and jobs, from the readable records and the copy in [node.EssentialsFile]. In a ring its
//     other records come back from the replicas at the next start (node/services/records). A peer
//     that is alone restores the outcomes of its pages, and their links, from the archive.
//   - An archive file is rewritten without the bytes that are not readable. The former file is
//     moved to damaged-TIME.
//   - Lost pages are pending again.
//
// The new database replaces the old one when it is complete: an interrupted repair can be repeated.
package repair
