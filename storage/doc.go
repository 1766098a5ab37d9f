// Package storage is the database of a peer: a Pebble database divided into keyspaces, one for each
// package that stores records. Page bodies are stored in the archive (storage/warc).
//
// # Terms
//
// A keyspace is all keys that begin with one prefix byte; store.go lists every one of them. A batch
// is a set of changes that becomes visible and durable as a whole. To wait is to block until a
// batch is on disk; many waits share one fsync (group commit), so a caller applies its batch,
// continues, and waits only before it acknowledges something.
//
// # Guarantees
//
// Every method is safe for concurrent use. A batch whose wait returned nil survives a crash of the
// process and of the machine. Batches without that may be lost, but only as a suffix: if a batch
// survived, so did every batch applied before it. Batches are atomic.
//
// # Disk failures
//
// On a failed write Pebble ends the process, sometimes by a panic that holds its locks. A peer
// should stop fetching and leave the ring instead. So the store intercepts Pebble's file system
// (failure.go): at the first failed write Failed is closed, every further Update and wait returns
// ErrFailed, and Pebble's goroutine sleeps until the process ends without seeing the error. Reads
// continue. Nothing is written after the failure, so the disk keeps what was acknowledged.
package storage
