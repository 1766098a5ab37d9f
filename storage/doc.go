// Package storage is the one durable home of a peer: a Pebble database opened once and divided into
// keyspaces, one for each neighbour that keeps something. Page bytes do not live here; they go to
// the archive (storage/warc).
//
// # Words
//
// A keyspace is all keys that begin with one prefix byte; keys.go lists every one of them. A batch
// is a set of changes that becomes visible and durable as a whole. To wait is to block until a
// batch is on disk; many waits share one fsync (group commit), so a caller applies its batch, goes
// on, and waits only where it must acknowledge something.
//
// # What it promises
//
// Every method may be called from many goroutines. What a wait acknowledged with nil survives a
// crash of the process and of the machine. What was applied but not acknowledged may be lost, but
// only as a suffix: if a batch survived, so did every batch applied before it. A batch is never
// half there.
//
// # When the disk fails
//
// Pebble's answer to a failed write is to end the process, sometimes by a panic that holds its
// locks. A peer wants to stop fetching and leave cleanly instead. So the store stands between
// Pebble and the file system (failure.go): the first write that fails is recorded, Failed is
// closed, every Update and wait from then on returns ErrFailed, and the goroutine of Pebble that
// met the failure never learns of it: it sleeps until the process ends. Reads go on. Because
// nothing is written after the failure, what is on disk stays what was acknowledged.
package storage
