// Package warc writes and reads the archive of fetched pages as WARC 1.1 files (ISO 28500:2017)
// that other tools can read.
//
// # Terms
//
// An exchange is one request and its response. It becomes three records: response (or revisit, when
// the same body was archived before), request, and metadata with the outlinks. Each record is one
// gzip member or Zstandard frame, so that a reader can start at any of them; those of one exchange
// are adjacent and written atomically. A file begins with a warcinfo record and is rotated by size.
// Its index is a CDXJ file beside it: one line per exchange, sorted by SURT key, with the
// provenance of the URL from the metadata record.
//
//	name.warc.gz.open    the file being written (.warc.zst, .warc)
//	name.cdxj.open       its index so far, unsorted, a help that recovery does without
//	name.warc.gz         finished
//	name.cdxj            its index, sorted
//
// # Concurrency
//
// An Encoder encodes exchanges, on as many goroutines as there are spare cores: hashing and
// compression are most of the cost of a page. A Writer writes one file at a time; its mutex covers
// little more than a copy.
//
// # Durability
//
// Exchanges appended before a Sync that returned nil survive a crash. Open truncates a file that a
// crash left open to its last complete record, indexes and finishes it; it passes the responses in
// it to Config.Found. When the disk is full the Writer truncates the file to the last complete
// exchange and refuses more.
//
// # Zstandard
//
// Frames are read and written as the IIPC proposes in Zstandard Compression for WARC Files 1.0:
// each written frame has its size and a checksum; records of several frames are read, and other
// frames between them are skipped. A frame's window is at most 8 MiB. Dictionaries are not
// supported, in neither direction: a reader that starts at a record would have to find it first.
//
// # Digests
//
// Block and payload digests are written as sha256 in lower-case hexadecimal, which readers verify
// without a hint about the encoding; some do not recognize unpadded base 32 for SHA-256.
package warc
