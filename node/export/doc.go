// Package export writes the results of a crawl to one file: the records of the archives (warc),
// their sorted index (cdxj), a WACZ of both, the link graph (links), or the outcome of each URL
// (urls).
//
// It reads archive files and pages of URLs from a Results, of a running peer or of a data
// directory. An export
//
//   - continues after an interruption: OUTPUT.part holds the data read so far and a journal of the
//     positions in the sources. The journal is written after the data is synced, and later data is
//     truncated, so there are no duplicates;
//   - is verified: records with wrong digests are skipped, reading continues after unreadable
//     bytes, and the URLs in them are reported;
//   - reports what is missing: peers that did not respond or disconnected, holders of records that
//     left the ring, and records with an outcome that are in no archive;
//   - uses limited memory: it sorts in runs on disk.
//
// OUTPUT gets its name when it is complete, and replaces no file without Force. Without OUTPUT the
// export goes to a stream and cannot be resumed.
//
// A URL whose host moved between peers during the listing may be missed or listed twice: an export
// of a running crawl is a sample.
package export
