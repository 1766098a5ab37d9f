// Package export makes one file of what a crawl left behind: the records of the archives (warc),
// their sorted index (cdxj), a WACZ of both, the link graph (links), or the fate of each URL
// (urls).
//
// It asks a Results, of a running peer or of a data directory, for one archive file and one page of
// URLs after the other. So an export
//
//   - goes on where it was interrupted: what was gathered lies in OUTPUT.part with a journal of how
//     far each source was read. The journal is written after the disk has what it speaks of, and
//     what came later is cut off, so nothing is there twice;
//   - is checked: records whose digests are not right are left out, reading goes on behind bytes
//     that cannot be read, and the URLs that lie there are named;
//   - says what is missing: peers that did not answer, or broke off, holders of records that are no
//     longer in the ring, and records that the outcomes of URLs speak of and that no archive holds;
//   - takes bounded memory: what must be sorted is sorted in runs on disk.
//
// OUTPUT appears under its name when it is whole, and replaces nothing unless that was asked for.
// Without OUTPUT the export goes to a stream, and cannot be resumed.
//
// A URL whose host moved from peer to peer while the URLs were listed may be missed or listed
// twice: export of a crawl that goes on is a sample.
package export
