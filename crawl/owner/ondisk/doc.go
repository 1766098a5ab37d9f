// Package ondisk defines the records of an owner: keys and values, the mutations of a host record,
// merging, and the form of replicas. It is stateless and operates on bytes alone.
//
// Unknown fields of messages are preserved; decoding an untrusted value takes at most a few times
// its size in memory; keys are ordered so that an arc of the ring, a host, and a job on it are one
// range each.
package ondisk
