// Package export writes the results of a crawl to one file: the records of the archives (warc),
// their sorted index (cdxj), a WACZ of both, the link graph (links), the text of pages (text, wet),
// the changes that later visits found (changes), or the outcome of each URL (urls, crawllog); or to
// a directory of tables (parquet).
//
// It reads archive files and pages of URLs from a Results, of a running peer or of a data
// directory. An export
//
//   - is verified: records with wrong digests are skipped, reading continues after unreadable
//     bytes, and the URLs in them are reported;
//   - reports what is missing: peers that did not respond or disconnected, holders of records that
//     left the ring, and records with an outcome that are in no archive;
//   - has a Filter: the records of an exchange are selected together, by its line in the index;
//   - uses limited memory: it sorts in temporary files.
//
// OUTPUT gets its name when it is complete, and replaces nothing without Force. Until then the data
// is in the directory OUTPUT.part, which a failed export removes, and the next one after a kill.
// Without OUTPUT the export goes to a stream.
//
// A URL whose host moved between peers during the listing may be missed or listed twice: an export
// of a running crawl is a sample.
package export
