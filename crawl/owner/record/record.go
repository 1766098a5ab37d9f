// Package record holds the messages that an owner of hosts keeps on disk; package ondisk frames
// them.
package record

//go:generate protoc --go_out=../../.. --go_opt=module=github.com/apoidea/apoidea record.proto
