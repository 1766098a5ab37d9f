// Package warc writes and reads the archive: what was fetched, as WARC 1.1 (ISO 28500:2017) files
// that other tools read.
//
// # Words
//
// An exchange is one request and its response. It becomes three records: response (or revisit, when
// the same body was archived before), request, and metadata with the outlinks. Each record is one
// gzip member or Zstandard frame, so that a reader can start at any of them; those of one exchange
// lie together and are written as a whole. A file begins with a warcinfo record and is rotated by
// size. Its index is a CDXJ file beside it: one line an exchange, sorted by SURT key.
//
//	name.warc.gz.open    the file being written (.warc.zst, .warc)
//	name.cdxj.open       its index so far, unsorted, a help that recovery does without
//	name.warc.gz         finished
//	name.cdxj            its index, sorted
//
// # Concurrency
//
// An Encoder turns exchanges into bytes, on as many goroutines as there are cores to spend: hashing
// and compressing are most of the cost of a page. A Writer is one file at a time behind one mutex
// that covers little more than a copy.
//
// # What survives a crash
//
// What was appended before a Sync that returned nil. Open cuts a half-written record from a file
// that a crash left open, indexes what remains and finishes it; Config.Found is told what it holds.
// When the disk is full the Writer cuts back to the last whole exchange and refuses more, so
// nothing half-written stays in a file.
//
// # Zstandard
//
// Frames are read and written as the IIPC proposes in Zstandard Compression for WARC Files 1.0: the
// size and a checksum stand in each that is written; a record of several frames is read, and other
// frames between them are passed over. A frame may ask for a window of 8 MiB at most. No dictionary
// is written, and a file that has one is refused with an error that says so: a reader that begins
// at a record would have to find it first.
//
// # Digests
//
// Block and payload digests are written as sha256 in lower-case hexadecimal, which is what readers
// recompute without a hint about the encoding; unpadded base 32 is not recognised by all of them
// for SHA-256.
package warc
