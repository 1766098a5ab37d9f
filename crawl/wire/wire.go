// Package wire holds the messages between owners and workers of hosts and about jobs, and the
// bounds on what strangers may put into them.
//
// Columns stand for lists: the i-th entries of url, depth, hops and kind describe one link. A
// column that is empty is all zero; one of another length makes the message invalid. Validate is to
// be called on every message before anything of it is used.
package wire

//go:generate protoc --go_out=../.. --go_opt=module=github.com/apoidea/apoidea crawl.proto
