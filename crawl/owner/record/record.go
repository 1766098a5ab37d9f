// Package record defines the protobuf messages of an owner's records on disk; package ondisk frames
// them.
package record

//go:generate protoc --go_out=../../.. --go_opt=module=github.com/apoidea/apoidea record.proto
