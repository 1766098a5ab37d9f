// Package wire defines the messages between owners and workers of hosts and about jobs, and the
// size limits for untrusted input.
//
// Lists are encoded as columns: the i-th entries of url, depth, hops and kind describe one link. An
// empty column is all zero; one of another length makes the message invalid. Validate must be
// called on every message before it is used.
package wire

//go:generate protoc --go_out=../.. --go_opt=module=github.com/apoidea/apoidea crawl.proto
