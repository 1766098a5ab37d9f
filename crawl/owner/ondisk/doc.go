// Package ondisk is what an owner of hosts keeps in its store: the keys and values of its records,
// the rules by which a host's record changes and two copies of a value become one, and what other
// peers keep of them. It knows bytes and nothing of hosts at work, and it has no state.
//
// It promises: unknown fields of messages are written back; a value of an untrusted peer takes no
// more memory to read than a few times its size; keys order as what they name, so that an arc of
// the ring, a host and a job on it are one range each.
package ondisk
