package link

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash returns the first eight bytes, big-endian, of SHA-256(job || url). IDs of jobs are random,
// so an attacker cannot prepare colliding URLs. It does not allocate.
func Hash(job [16]byte, url string) uint64 {
	var buf [16 + 496]byte
	if len(url) > len(buf)-len(job) {
		return hashLong(job, url)
	}
	n := copy(buf[:], job[:])
	n += copy(buf[n:], url)
	sum := sha256.Sum256(buf[:n])
	return binary.BigEndian.Uint64(sum[:])
}

// hashLong is Hash for the rare long URL, which needs a large buffer.
func hashLong(job [16]byte, url string) uint64 {
	var array [16 + MaxURL]byte
	buf := append(append(array[:0], job[:]...), url...)
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint64(sum[:])
}
